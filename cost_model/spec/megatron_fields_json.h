// One description of Megatron-LM's arguments serves both directions: a function goes through the
// fields of a spec with their arguments' names, and either fills the fields from a file's arguments
// or writes arguments for them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/spec/megatron_arguments_json.h"
#include "cost_model/spec/megatron_write.h"

namespace tessera::spec {

// Of a field without a key of its own in `keys_set`: those of the model.
inline constexpr const char* kModelField = "";

class MegatronFields {
 public:
  using Names = std::vector<std::string>;  // the usual one, which is written, first
  // kAlways writes an argument that says no more than Megatron-LM's default does.
  enum class Show : uint8_t { kIfNotDefault, kAlways };

  // Reads; appends the keys of fields that it sets to `keys_set`. `is_whole`: the arguments are a
  // run's whole command line, so that absent ones have Megatron-LM's defaults. Otherwise they
  // describe as much as they say, and fields with a key that they do not speak of stay as they are.
  MegatronFields(MegatronArguments& arguments, std::vector<std::string>& keys_set, bool is_whole)
      : reader_(&arguments), keys_set_(&keys_set), is_whole_(is_whole) {}
  // Writes.
  explicit MegatronFields(MegatronCommand& command) : command_(&command) {}

  bool is_reading() const { return reader_ != nullptr; }
  bool is_whole() const { return is_whole_; }
  MegatronArguments& arguments() { return *reader_; }  // REQUIRES: is_reading

  // Writing: the section of the arguments that follow.
  void Section(const std::string& name) { section_ = name; }

  // The field's argument; `standard` is Megatron-LM's default. Without one, an absent argument
  // leaves the field as it is.
  template <typename Field>
  void Integer(const char* key, Field& field, const Names& names, std::optional<int64_t> standard,
               IntegerRange range = kSizeRange, Show show = Show::kIfNotDefault) {
    if (is_reading()) {
      Set(key, field, reader_->Integer(names, range), standard);
    } else if (show == Show::kAlways || static_cast<int64_t>(field) != standard) {
      Write(names.front(), std::to_string(field));
    }
  }
  template <typename Field>
  void Required(Field& field, const std::string& name) {
    if (is_reading()) {
      field = static_cast<Field>(reader_->RequiredInteger({name}));
    } else {
      Write(name, std::to_string(field));
    }
  }
  void Number(const char* key, double& field, const Names& names, std::optional<double> standard,
              NumberRange range, Show show = Show::kIfNotDefault);
  // Given: true. Megatron-LM's default is false.
  void Flag(const char* key, bool& field, const Names& names);
  template <typename Enum>
  void Choice(const char* key, Enum& field, const Names& names,
              const std::vector<std::pair<std::string, Enum>>& choices,
              std::optional<Enum> standard) {
    if (is_reading()) {
      std::vector<std::string> words;
      for (const auto& choice : choices) words.push_back(choice.first);
      const std::optional<std::size_t> index = reader_->Choice(names, words);
      Set(key, field, index ? std::optional(choices[*index].second) : std::nullopt, standard);
      return;
    }
    for (const auto& [word, value] : choices) {
      if (value == field) return Write(names.front(), word);
    }
  }

  // Reading: takes the value, or the default where the argument is absent and may be; notes the
  // key.
  template <typename Field, typename Value, typename Standard = Value>
  void Set(const char* key, Field& field, const std::optional<Value>& value,
           const std::optional<Standard>& standard = std::nullopt) {
    const bool is_model = *key == '\0';
    if (value) {
      field = static_cast<Field>(*value);
    } else if (standard && (is_whole_ || is_model)) {
      field = static_cast<Field>(*standard);
    } else {
      return;
    }
    if (!is_model) keys_set_->push_back(key);
  }

  // Writing.
  void Write(const std::string& name, std::string value = "");
  void Write(const std::string& name, int64_t value) { Write(name, std::to_string(value)); }
  void Warn(std::string sentence);
  // Something that Megatron-LM cannot run.
  void Refuse(const char* constraint, std::string sentence);

 private:
  MegatronArguments* reader_ = nullptr;  // null: writing
  std::vector<std::string>* keys_set_ = nullptr;
  bool is_whole_ = false;
  MegatronCommand* command_ = nullptr;  // null: reading
  std::string section_;
};

}  // namespace tessera::spec
