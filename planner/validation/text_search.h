#pragma once

#include <string>
#include <string_view>

namespace tessera::planner {

inline bool Contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tessera::planner
