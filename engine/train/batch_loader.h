// Micro-batches of one data-parallel rank, cut from the global batch; of their sequences a
// context-parallel rank takes its own tokens. Of what is masked from the loss the label is
// negative. Documents are as Megatron-LM's get_ltor_masks_and_position_ids has them: the token that
// ends one belongs to it, and what follows is the next one's.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/base/token_positions.h"
#include "cost_model/spec/rank_layout.h"
#include "engine/data/sample_source.h"
#include "engine/layers/stage_model.h"

namespace tessera::engine {

// Of so many tokens those whose label is not masked.
int64_t CountTargetsIn(const Microbatch& microbatch, int64_t tokens);

class BatchLoader {
 public:
  // `source` and `parallel` must outlive the loader.
  BatchLoader(const SampleSource& source, const spec::TrainingSpec& training,
              const spec::ParallelSpec& parallel, const spec::RankCoord& coord);

  // The micro-batch holds samples from consumed + spec::FirstSampleOf onwards. Valid until the next
  // call.
  Microbatch Load(int64_t consumed_samples, int microbatch);

 private:
  // Of the sample that was read last.
  void FindDocuments(int32_t* starts) const;

  const SampleSource& source_;
  const spec::ParallelSpec& parallel_;
  int64_t rank_sequence_;  // tokens of a sequence that this rank takes
  base::TokenPositions positions_;
  int64_t masked_behind_;  // the label of this token is masked; -1: none is
  int data_rank_;
  std::vector<int32_t> sample_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> labels_;
  int32_t end_of_document_;               // -1: of no interest
  std::vector<int32_t> document_starts_;  // of whole samples; empty: of no interest
};

}  // namespace tessera::engine
