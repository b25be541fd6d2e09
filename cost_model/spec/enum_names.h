// A table of an enum's values and their names: ToString and FromString read the same rows.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace tessera::spec {

template <typename Enum, std::size_t kSize>
using EnumNames = std::array<std::pair<Enum, std::string_view>, kSize>;

// "?" when the table lacks the value.
template <typename Enum, std::size_t kSize>
std::string_view NameOf(const EnumNames<Enum, kSize>& names, Enum value) {
  for (const auto& [candidate, name] : names) {
    if (candidate == value) return name;
  }
  return "?";
}

template <typename Enum, std::size_t kSize>
std::optional<Enum> ValueOf(const EnumNames<Enum, kSize>& names, std::string_view text) {
  for (const auto& [value, name] : names) {
    if (name == text) return value;
  }
  return std::nullopt;
}

}  // namespace tessera::spec
