#include "cost_model/spec/megatron_expert_layers_json.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "cost_model/base/check.h"

namespace tessera::spec {
namespace {

using base::Concat;

// Unfolds sums and multiples of lists of digits: "([0]*3+[1]*58)". Nothing for anything else.
class ListExpression {
 public:
  ListExpression(const std::string& text, std::size_t max_size)
      : text_(text), max_size_(max_size) {}

  std::optional<std::vector<int>> Unfold() && {
    std::vector<int> values = Sum(0);
    if (!is_valid_ || place_ != text_.size()) return std::nullopt;
    return values;
  }

 private:
  static constexpr int kMaxDepth = 16;

  std::vector<int> Sum(int depth) {
    std::vector<int> values = Term(depth);
    while (Take('+')) {
      const std::vector<int> more = Term(depth);
      values.insert(values.end(), more.begin(), more.end());
    }
    is_valid_ = is_valid_ && values.size() <= max_size_;
    return values;
  }
  std::vector<int> Term(int depth) {
    std::vector<int> values;
    if (depth < kMaxDepth && Take('(')) {
      values = Sum(depth + 1);
      Expect(')');
    } else {
      Expect('[');
      do {
        values.push_back(static_cast<int>(Number()));
      } while (is_valid_ && Take(','));
      Expect(']');
    }
    while (is_valid_ && Take('*')) values = Repeated(values, Number());
    return values;
  }
  std::vector<int> Repeated(const std::vector<int>& values, std::size_t times) {
    std::vector<int> all;
    is_valid_ = is_valid_ && times * values.size() <= max_size_;
    for (std::size_t i = 0; is_valid_ && i < times; ++i) {
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  std::size_t Number() {
    uint16_t value = 0;  // no longer list is a model's
    const char* begin = text_.data() + place_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    is_valid_ = is_valid_ && error == std::errc();
    place_ += static_cast<std::size_t>(end - begin);
    return value;
  }
  bool Take(char c) {
    if (place_ == text_.size() || text_[place_] != c) return false;
    ++place_;
    return true;
  }
  void Expect(char c) { is_valid_ = Take(c) && is_valid_; }

  const std::string& text_;
  std::size_t max_size_;
  std::size_t place_ = 0;
  bool is_valid_ = true;
};

}  // namespace

void VisitMegatronExpertLayers(MegatronFields& fields, int num_layers, int& num_leading_dense) {
  const MegatronFields::Names names = {"moe_layer_freq"};
  if (!fields.is_reading()) {
    if (num_leading_dense == 0) return;
    fields.Write(names.front(),
                 Concat("([0]*", num_leading_dense, "+[1]*", num_layers - num_leading_dense, ")"));
    return;
  }
  MegatronArguments& arguments = fields.arguments();
  const std::optional<std::string> text = arguments.Text(names);
  if (!text || *text == "1") return;
  const auto max_size = static_cast<std::size_t>(num_layers);
  const std::optional<std::vector<int>> layers = ListExpression(*text, max_size).Unfold();
  if (layers && layers->size() == max_size) {
    const auto first = std::find(layers->begin(), layers->end(), 1);
    if (std::all_of(layers->begin(), first, [](int layer) { return layer == 0; }) &&
        std::all_of(first, layers->end(), [](int layer) { return layer == 1; })) {
      num_leading_dense = static_cast<int>(first - layers->begin());
      return;
    }
  }
  arguments.Fail(names, '"' + *text + '"',
                 Concat("1 (experts in every layer) or a list for the ", num_layers,
                        " layers that is 0 for dense ones first and 1 from then on"));
}

}  // namespace tessera::spec
