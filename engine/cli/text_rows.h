// Lines of text as printf lays them out, and rows of a name and a value.
#pragma once

#include <cstdio>
#include <iomanip>
#include <ostream>
#include <string>
#include <string_view>

namespace tessera::engine {

inline constexpr double kMsPerSecond = 1e3;

template <typename... Args>
std::string Format(const char* format, Args... args) {
  const int size = std::snprintf(nullptr, 0, format, args...);
  std::string text(static_cast<size_t>(size), '\0');
  std::snprintf(text.data(), text.size() + 1, format, args...);
  return text;
}

template <typename Value>
void PrintNamed(std::ostream& out, std::string_view name, const Value& value) {
  constexpr int kNameWidth = 24;
  out << std::left << std::setw(kNameWidth) << name << value << '\n';
}

}  // namespace tessera::engine
