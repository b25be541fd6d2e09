#include "engine/data/bpe_vocabulary.h"

#include <algorithm>

#include "cost_model/base/error.h"
#include "engine/data/utf8.h"

namespace tessera::engine {
namespace {

// Far above any vocabulary: a larger id is a slip.
constexpr int32_t kMaxId = (1 << 24) - 1;

std::string Quoted(const std::string& bytes) {
  return base::Concat('"', PrintableText(bytes), '"');
}

}  // namespace

BpeVocabulary::BpeVocabulary(const BpeDescription& description) {
  for (const BpeToken& token : description.vocabulary) AddToken(token, description.path);
  for (const BpeToken& token : description.specials) AddToken(token, description.path);
  for (size_t byte = 0; byte < id_of_byte_.size(); ++byte) {
    const auto id = Find(std::string(1, static_cast<char>(byte)));
    if (!id) {
      throw base::ConfigError(description.path, "", base::Concat("no token for byte ", byte),
                              "a token for each of the 256 bytes (a byte-level vocabulary)");
    }
    id_of_byte_[byte] = *id;
  }
  AddMerges(description);
}

void BpeVocabulary::AddToken(const BpeToken& token, const std::string& path) {
  if (token.bytes.empty() || token.id < 0 || token.id > kMaxId) {
    throw base::ConfigError(path, "",
                            base::Concat("token ", Quoted(token.bytes), " with id ", token.id),
                            base::Concat("text, and an id from 0 to ", kMaxId));
  }
  const bool is_new_text = ids_.emplace(token.bytes, token.id).second;
  const auto [entry, is_new_id] = bytes_.emplace(token.id, token.bytes);
  // Neither is new for a special token of the vocabulary.
  if (is_new_text != is_new_id || entry->second != token.bytes) {
    throw base::ConfigError(path, "",
                            base::Concat("token ", Quoted(token.bytes), " with id ", token.id),
                            "one id a token, and one token an id");
  }
  size_ = std::max(size_, int64_t{token.id} + 1);
}

void BpeVocabulary::AddMerges(const BpeDescription& description) {
  merges_.reserve(description.merges.size());
  for (size_t rank = 0; rank < description.merges.size(); ++rank) {
    const BpeMerge& merge = description.merges[rank];
    const auto left = Find(merge.left);
    const auto right = Find(merge.right);
    const auto merged = Find(merge.left + merge.right);
    if (!left || !right || !merged) {
      throw base::ConfigError(description.path, "",
                              base::Concat("merge ", rank + 1, ", of ", Quoted(merge.left), " and ",
                                           Quoted(merge.right)),
                              "both and what they make as tokens of the vocabulary");
    }
    merges_.insert_or_assign(PairKey(*left, *right),
                             Merge{.rank = static_cast<int32_t>(rank), .id = *merged});
  }
}

std::optional<int32_t> BpeVocabulary::Find(std::string_view bytes) const {
  const auto found = ids_.find(bytes);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* BpeVocabulary::BytesOf(int32_t id) const {
  const auto found = bytes_.find(id);
  return found == bytes_.end() ? nullptr : &found->second;
}

}  // namespace tessera::engine
