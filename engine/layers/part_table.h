// The parts of the model that are whole on a rank for a while only, and where they lie meanwhile.
//
// Parts are used one after the other. Neighbours lie at opposite ends of one block, so that a part
// can arrive, or its gradients be reduced, while the one beside it is at work: what is whole has an
// address that never changes. An embedding that the head of the same rank reads too lies before
// that block.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cost_model/spec/flat_layout.h"

namespace tessera::engine {

struct Part {
  int number = 0;               // spec::ParameterSpec::layer
  std::vector<size_t> buckets;  // those that are sharded, one behind the other in a block
  int64_t num_elements = 0;     // of them
  // Into the block of gathered parameters and that of gradients that wait for their reduction.
  int64_t gathered_offset = 0;
  int64_t unreduced_offset = 0;
  int slot = 0;             // parts in different slots do not overlap
  std::optional<int> next;  // used by the forward pass after this one, on the same virtual stage
};
inline constexpr int kNumPartSlots = 3;

class PartTable {
 public:
  // Of the virtual stages of one rank with their parameters; empty unless
  // spec::ReducesEachMicrobatch.
  PartTable(const std::vector<spec::VirtualStage>& stages,
            const std::vector<spec::ParameterSpec>& parameters, const spec::FlatLayout& layout,
            const spec::ModelSpec& model, const spec::ParallelSpec& parallel);

  // Null for a part that nothing is sharded of.
  const Part* Find(int number) const;
  // The part of a bucket, null where it is not sharded.
  const Part* OfBucket(size_t bucket) const { return Find(part_of_bucket_.at(bucket)); }
  // Elements into the part at which a bucket of it begins.
  int64_t OffsetInPart(size_t bucket) const { return offset_in_part_.at(bucket); }
  const std::map<int, Part>& parts() const { return parts_; }

  int64_t gathered_elements() const { return gathered_elements_; }
  int64_t unreduced_elements() const { return unreduced_elements_; }
  // Whether the head uses the embedding's parameters, which then stay from its forward pass on and
  // collect gradients from the head's backward pass on.
  bool shares_embedding() const { return shares_embedding_; }

 private:
  void Place(const spec::VirtualStage& stage, const spec::StateElements& elements,
             const spec::ParallelSpec& parallel);

  std::map<int, Part> parts_;
  std::vector<int> part_of_bucket_;
  std::vector<int64_t> offset_in_part_;
  int64_t gathered_elements_ = 0;
  int64_t unreduced_elements_ = 0;
  bool shares_embedding_ = false;
};

}  // namespace tessera::engine
