// Megatron-LM's arguments by name, whatever file and sections they stood in.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cost_model/spec/field_visitor.h"

namespace tessera::spec {

class MegatronArguments {
 public:
  // Gathers the arguments of `document`, which must outlive this: "--num-layers", "num-layers" and
  // "num_layers" are one name, objects are sections, null is absent. Throws base::ConfigError for
  // a name met twice.
  MegatronArguments(const nlohmann::json& document, std::string file);

  // Each getter takes the argument's names, the usual one first, and throws base::ConfigError for a
  // wrong type, for a value out of range, and for two names of one argument given together.
  std::optional<int64_t> Integer(const std::vector<std::string>& names,
                                 IntegerRange range = kSizeRange);
  // 1 when absent, which Finish then tells.
  int64_t RequiredInteger(const std::vector<std::string>& names);
  std::optional<double> Number(const std::vector<std::string>& names, NumberRange range);
  std::optional<bool> Flag(const std::vector<std::string>& names);
  bool FlagOr(const std::vector<std::string>& names, bool fallback);
  // One of `choices`; returns its index.
  std::optional<std::size_t> Choice(const std::vector<std::string>& names,
                                    const std::vector<std::string>& choices);
  // A word, a number, or a list of integers as it stands in Python ("[0,1]").
  std::optional<std::string> Text(const std::vector<std::string>& names);
  // A list of integers, or one as text: "4095,0" or "(4095,0)".
  std::optional<std::vector<int64_t>> Integers(const std::vector<std::string>& names);
  // Whether an argument is given as anything but null or false; its type is not looked at.
  bool Given(const std::vector<std::string>& names);
  // Refuses any value but null and `only`.
  void Only(const std::string& name, const nlohmann::json& only, const std::string& why);
  void Skip(const std::vector<std::string>& names);

  [[noreturn]] void Fail(const std::vector<std::string>& names, const std::string& found,
                         const std::string& expected) const;
  // Throws for an argument that nobody asked for, naming the nearest known one, then for a required
  // one that was missing: a misspelt name is told as such.
  void Finish() const;

 private:
  struct Argument {
    const nlohmann::json* section;
    std::string section_pointer;
    std::string key;  // as written in the file
  };

  void Gather(const nlohmann::json& object, const std::string& pointer);
  const Argument* Find(const std::vector<std::string>& names);
  std::string PointerOf(const Argument& argument) const;

  std::string file_;
  std::map<std::string, Argument> arguments_;
  std::set<std::string> known_;
  std::string missing_;  // the first required argument that was absent
};

}  // namespace tessera::spec
