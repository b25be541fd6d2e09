// Reads a JSON object of which only some keys matter: strict about their types, indifferent to the
// others.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tessera::planner {

class RowReader {
 public:
  // `where` names file and line. Throws base::ConfigError when `value` is no object. Keeps
  // references to both.
  RowReader(const nlohmann::json& value, const std::string& where, std::string pointer = "");

  // Absent or null: "", no value, false. Each throws base::ConfigError for a value of another type.
  std::string Text(const std::string& key) const;
  bool Flag(const std::string& key) const { return OptionalFlag(key).value_or(false); }
  std::optional<bool> OptionalFlag(const std::string& key) const;
  std::optional<int64_t> Size(const std::string& key) const;   // at least 1
  std::optional<int64_t> Count(const std::string& key) const;  // at least 0
  std::optional<double> PositiveNumber(const std::string& key) const;
  std::vector<std::string> Texts(const std::string& key) const;

  std::string RequiredText(const std::string& key) const;
  int64_t RequiredSize(const std::string& key) const;

  // A section that must be there, and one that may.
  RowReader Section(const std::string& key) const;
  std::optional<RowReader> OptionalSection(const std::string& key) const;

  [[noreturn]] void Fail(const std::string& key, const std::string& found,
                         const std::string& expected) const;

 private:
  const nlohmann::json* Find(const std::string& key) const;
  std::optional<int64_t> Integer(const std::string& key, int64_t minimum) const;

  const nlohmann::json& object_;
  const std::string& where_;
  std::string pointer_;
};

}  // namespace tessera::planner
