// One description of a spec's JSON keys serves both directions: a function visits the fields of a
// struct, and the visitor either fills them from a document or writes them into one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/spec/cluster_spec.h"

namespace tessera::spec {

enum class Presence : uint8_t { kRequired, kOptional };

// Both bounds included, but for `above_minimum` and `below_maximum`.
template <typename T>
struct Range {
  T minimum = std::numeric_limits<T>::lowest();
  T maximum = std::numeric_limits<T>::max();
  bool above_minimum = false;
  bool below_maximum = false;
};
using IntegerRange = Range<int64_t>;
using NumberRange = Range<double>;

// A size that may be multiplied with another one in int64_t.
inline constexpr IntegerRange kSizeRange = {.minimum = 1,
                                            .maximum = std::numeric_limits<int32_t>::max()};
inline constexpr IntegerRange kCountRange = {.minimum = 0, .maximum = kSizeRange.maximum};
// Of which a few may be added up in int64_t.
inline constexpr IntegerRange kBytesRange = {.minimum = 0, .maximum = int64_t{1} << 60};
inline constexpr NumberRange kPositive = {.minimum = 0, .above_minimum = true};
inline constexpr NumberRange kNotNegative = {.minimum = 0};
inline constexpr NumberRange kDropoutRange = {.minimum = 0, .maximum = 1, .below_maximum = true};
inline constexpr NumberRange kFraction = {.minimum = 0, .maximum = 1, .above_minimum = true};

class FieldVisitor {
 public:
  using Visit = std::function<void(FieldVisitor&)>;

  virtual ~FieldVisitor() = default;

  virtual void Text(const std::string& key, std::string& value, Presence presence) = 0;
  virtual void Flag(const std::string& key, bool& value, Presence presence) = 0;
  virtual void Integer(const std::string& key, int64_t& value, IntegerRange range,
                       Presence presence) = 0;
  virtual void Unsigned(const std::string& key, uint64_t& value, Presence presence) = 0;
  virtual void Number(const std::string& key, double& value, NumberRange range,
                      Presence presence) = 0;
  virtual void Integers(const std::string& key, std::vector<int>& values, Presence presence) = 0;
  virtual void Texts(const std::string& key, std::vector<std::string>& values,
                     Presence presence) = 0;
  virtual void Table(const std::string& key, EfficiencyTable& table, Presence presence) = 0;
  // One of `names`; returns its index. `index` is the value to write.
  virtual std::size_t Name(const std::string& key, const std::vector<std::string>& names,
                           std::size_t index, Presence presence) = 0;
  virtual void Object(const std::string& key, const Visit& visit) = 0;
  // An array of objects: sets its size, then visits the elements.
  virtual void Objects(const std::string& key, std::size_t size,
                       const std::function<void(std::size_t size)>& resize,
                       const std::function<void(FieldVisitor&, std::size_t index)>& visit) = 0;
  // Whether to visit an optional key: the document has it, or the value `is_set`.
  virtual bool Present(const std::string& key, bool is_set) = 0;
  // A remark for human readers: read and dropped.
  virtual void Remark(const std::string& key) = 0;

  void Text(const std::string& key, std::string& value) { Text(key, value, Presence::kRequired); }
  void Flag(const std::string& key, bool& value) { Flag(key, value, Presence::kRequired); }
  void Integer(const std::string& key, int64_t& value, IntegerRange range) {
    Integer(key, value, range, Presence::kRequired);
  }
  void Number(const std::string& key, double& value, NumberRange range) {
    Number(key, value, range, Presence::kRequired);
  }
  void Table(const std::string& key, EfficiencyTable& table) {
    Table(key, table, Presence::kOptional);
  }
  void Integer(const std::string& key, int& value, IntegerRange range,
               Presence presence = Presence::kRequired) {
    int64_t wide = value;
    range.maximum = std::min<int64_t>(range.maximum, std::numeric_limits<int>::max());
    Integer(key, wide, range, presence);
    value = static_cast<int>(wide);
  }

  // An enum whose values count from 0 and whose ToString answers "?" beyond the last one.
  template <typename Enum>
  void Mode(const std::string& key, Enum& value, Presence presence = Presence::kRequired) {
    std::vector<std::string> names;
    for (int i = 0; ToString(static_cast<Enum>(i)) != "?"; ++i) {
      names.emplace_back(ToString(static_cast<Enum>(i)));
    }
    value = static_cast<Enum>(Name(key, names, static_cast<std::size_t>(value), presence));
  }
};

}  // namespace tessera::spec
