#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

// Fails with a CheckFailure that holds the place, the condition and the values given: for our own
// bugs only. Wrong input is a ConfigError, an infeasible layout a list of violations.
#define TESSERA_CHECK(condition, ...)                                          \
  do {                                                                         \
    if (!(condition)) {                                                        \
      ::tessera::base::FailCheck(__FILE__, __LINE__, #condition, __VA_ARGS__); \
    }                                                                          \
  } while (false)

namespace tessera::base {

struct CheckFailure : std::logic_error {
  using std::logic_error::logic_error;
};

template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

template <typename... Parts>
[[noreturn]] void FailCheck(const char* file, int line, const char* condition,
                            const Parts&... parts) {
  throw CheckFailure(Concat(file, ':', line, ": check failed: ", condition, ": ", parts...));
}

}  // namespace tessera::base
