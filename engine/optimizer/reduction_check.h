// Whether the gradients that ZeRO scatters are the sums of what all ranks put in. Each rank keeps a
// shard of its own then, so that there are no replicas to compare.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/comm/process_groups.h"
#include "engine/layers/parameter_store.h"

namespace tessera::engine {

// Of one step: each rank takes a weighted sum of the elements of every piece (what a shard has of a
// parameter) before the piece is scattered, and of its own pieces after it; the latter must be the
// sum of the former over the ranks that shard. These sums are in fp64, so what they may differ by
// is the rounding of fp32 additions: for each of n ranks 2^-23 of the summed magnitudes.
//
// Cost: gradients are read once more, through the host.
class ReductionCheck {
 public:
  // All must outlive it.
  ReductionCheck(const ParameterStore& store, const ProcessGroups& groups,
                 kernels::Backend& backend);

  // Gradients of a bucket, [elements of the bucket], of which each rank of the group is to keep
  // the sum of its own shard. Called again for another micro-batch, they add up.
  void BeforeScatter(size_t bucket, kernels::Array gradients);
  // Once all are scattered: what the rank keeps.
  void AfterScatter();

  // What is wrong, the same on all ranks: parameter, rank, the sums; "" if nothing. Collective over
  // `host_world`.
  std::string FindMistake(Communicator& host_world) const;
  int64_t num_pieces() const { return static_cast<int64_t>(pieces_.size()); }

 private:
  struct Piece {
    size_t bucket = 0;
    size_t parameter = 0;
    int shard = 0;
    int64_t offset = 0;  // elements into the flat buffer
    int64_t num_elements = 0;
  };
  struct Sums {
    double sum = 0;        // weighted
    double magnitude = 0;  // of what is summed
  };

  Sums SumsOf(kernels::Array gradients, int64_t num_elements) const;
  bool IsOwn(const Piece& piece) const;
  // What is wrong with one of this rank's own pieces; "" if nothing.
  std::string MistakeIn(size_t piece, const std::vector<std::vector<Sums>>& put_in) const;

  const ParameterStore& store_;
  const ProcessGroups& groups_;
  kernels::Backend& backend_;
  std::vector<Piece> pieces_;  // the same on all ranks of a group
  std::vector<Sums> put_in_;   // by piece
  std::vector<Sums> kept_;     // by piece, of the own ones
};

}  // namespace tessera::engine
