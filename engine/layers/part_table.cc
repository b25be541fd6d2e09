#include "engine/layers/part_table.h"

namespace tessera::engine {
namespace {

constexpr int kNoPart = -3;
constexpr int kSharedSlot = 2;  // 0 begins the block, 1 ends it

std::vector<int> PartNumbers(const spec::VirtualStage& stage) {
  std::vector<int> numbers;
  if (stage.has_embedding) numbers.push_back(spec::kEmbeddingPart);
  for (int i = 0; i < stage.num_layers; ++i) numbers.push_back(stage.first_layer + i);
  if (stage.has_head) numbers.push_back(spec::kHeadPart);
  return numbers;
}

}  // namespace

PartTable::PartTable(const std::vector<spec::VirtualStage>& stages,
                     const std::vector<spec::ParameterSpec>& parameters,
                     const spec::FlatLayout& layout, const spec::ModelSpec& model,
                     const spec::ParallelSpec& parallel)
    : part_of_bucket_(layout.buckets.size(), kNoPart), offset_in_part_(layout.buckets.size()) {
  if (!spec::ReducesEachMicrobatch(parallel)) return;
  for (size_t i = 0; i < layout.buckets.size(); ++i) {
    const spec::FlatBucket& bucket = layout.buckets[i];
    if (!spec::IsSharded(bucket.is_expert, parallel)) continue;
    const int number = parameters[static_cast<size_t>(bucket.first_parameter)].layer;
    Part& part = parts_[number];
    part.number = number;
    part.buckets.push_back(i);
    part_of_bucket_[i] = number;
    offset_in_part_[i] = part.num_elements;
    part.num_elements += bucket.num_elements;
  }
  const spec::StateElements elements = StateElementsOf(parameters, layout, model, parallel);
  gathered_elements_ = GatheredElements(elements, parallel);
  unreduced_elements_ = UnreducedElements(elements, parallel);
  shares_embedding_ = elements.shared_embedding > 0;
  for (const spec::VirtualStage& stage : stages) Place(stage, elements, parallel);
}

void PartTable::Place(const spec::VirtualStage& stage, const spec::StateElements& elements,
                      const spec::ParallelSpec& parallel) {
  Part* last = nullptr;
  int slot = 0;
  for (const int number : PartNumbers(stage)) {
    const auto found = parts_.find(number);
    if (found == parts_.end()) continue;
    Part& part = found->second;
    if (last != nullptr) last->next = number;
    last = &part;
    if (number == spec::kEmbeddingPart && shares_embedding_) {
      part.slot = kSharedSlot;
      continue;
    }
    part.slot = slot;
    slot = 1 - slot;
    const int64_t begin = elements.shared_embedding;
    part.gathered_offset = part.slot == 0 ? begin : gathered_elements_ - part.num_elements;
    // Without a reduction under way there is one place for gradients.
    part.unreduced_offset = part.slot == 0 || !parallel.overlap_grad_reduce
                                ? begin
                                : unreduced_elements_ - part.num_elements;
  }
}

const Part* PartTable::Find(int number) const {
  const auto found = parts_.find(number);
  return found == parts_.end() ? nullptr : &found->second;
}

}  // namespace tessera::engine
