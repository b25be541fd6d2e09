// Fills specs from a JSON object, strictly: whatever is left unread, missing, of a wrong type or
// out of range is a base::ConfigError that names the file and the JSON pointer.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cost_model/spec/field_visitor.h"

namespace tessera::spec {

class FieldReader : public FieldVisitor {
 public:
  // `sources`, when given, collects the sources of numbers written as {"value", "tag", "source"},
  // by their pointer below `source_root`; when null, only bare numbers are taken.
  FieldReader(const nlohmann::json& object, const std::string& file, const std::string& pointer,
              std::map<std::string, NumberSource>* sources = nullptr, std::string source_root = "");

  // Visits one object from begin to end.
  static void Read(const nlohmann::json& object, const std::string& file, const Visit& visit);

  using FieldVisitor::Flag;
  using FieldVisitor::Integer;
  using FieldVisitor::Number;
  using FieldVisitor::Table;
  using FieldVisitor::Text;
  void Text(const std::string& key, std::string& value, Presence presence) override;
  void Flag(const std::string& key, bool& value, Presence presence) override;
  void Integer(const std::string& key, int64_t& value, IntegerRange range,
               Presence presence) override;
  void Unsigned(const std::string& key, uint64_t& value, Presence presence) override;
  void Number(const std::string& key, double& value, NumberRange range, Presence presence) override;
  void Integers(const std::string& key, std::vector<int>& values, Presence presence) override;
  void Texts(const std::string& key, std::vector<std::string>& values, Presence presence) override;
  void Table(const std::string& key, EfficiencyTable& table, Presence presence) override;
  std::size_t Name(const std::string& key, const std::vector<std::string>& names, std::size_t index,
                   Presence presence) override;
  void Object(const std::string& key, const Visit& visit) override;
  void Objects(const std::string& key, std::size_t size,
               const std::function<void(std::size_t size)>& resize,
               const std::function<void(FieldVisitor&, std::size_t index)>& visit) override;
  bool Present(const std::string& key, bool is_set) override;
  void Remark(const std::string& key) override;

  // The value of an optional key, null when absent; the caller judges its type.
  const nlohmann::json* Take(const std::string& key);
  [[noreturn]] void Fail(const std::string& key, const std::string& found,
                         const std::string& expected) const;
  // Throws for keys that nobody asked for, then for required ones that were missing: a misspelt
  // key is told as such.
  void Finish() const;

 private:
  // Null when absent; a required key's absence is remembered for Finish.
  const nlohmann::json* Find(const std::string& key, Presence presence,
                             const std::string& expected);
  // The same, out of its {"value", "tag", "source"} wrapper.
  const nlohmann::json* FindSourced(const std::string& key, Presence presence,
                                    const std::string& expected);
  void ReadSource(const nlohmann::json& wrapper, const std::string& pointer);

  const nlohmann::json& object_;
  const std::string& file_;
  std::string pointer_;
  std::map<std::string, NumberSource>* sources_;
  std::string source_root_;
  std::vector<std::string> known_;                              // keys asked for, in order
  std::optional<std::pair<std::string, std::string>> missing_;  // the first: key, expected
};

}  // namespace tessera::spec
