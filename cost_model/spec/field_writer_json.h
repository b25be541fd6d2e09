// Writes specs into a JSON object, keys in the order of the visit.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cost_model/spec/field_visitor.h"

namespace tessera::spec {

class FieldWriter : public FieldVisitor {
 public:
  // `sources`, when given, says which numbers are written as {"value", "tag", "source"}, by their
  // pointer below `object`.
  explicit FieldWriter(nlohmann::ordered_json& object, std::string pointer = "",
                       const std::map<std::string, NumberSource>* sources = nullptr);

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

 private:
  void Put(const std::string& key, nlohmann::ordered_json value);

  nlohmann::ordered_json& object_;
  std::string pointer_;
  const std::map<std::string, NumberSource>* sources_;
};

}  // namespace tessera::spec
