// Every parameter of the model: name, global shape, how it is split over tensor-parallel ranks.
// Planner: bytes. Engine: allocation, initialisation, reductions, checkpoints.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cost_model/spec/stage_partition.h"

namespace tessera::spec {

enum class InitKind : uint8_t { kNormal, kZeros, kOnes };

// Slice of one dimension over the tensor-parallel ranks.
// dim -1: every rank holds all of it. Otherwise the (padded) dimension is cut into num_shards equal
// parts; with fewer shards than ranks (key/value heads fewer than tp) tp / num_shards neighbouring
// ranks hold the same part.
struct ParameterShard {
  int dim = -1;
  int num_shards = 1;
  int64_t padded_size = 0;  // of the dimension; beyond the global size lie zeros
  bool operator==(const ParameterShard&) const = default;
};

// Parts of a model beside its layers, by the numbers that ParameterSpec::layer gives them.
inline constexpr int kHeadPart = -1;
inline constexpr int kEmbeddingPart = -2;
// The parameter that tied embeddings share.
inline constexpr const char* kWordEmbedding = "embedding.word.weight";

struct ParameterSpec {
  std::string name;                   // "layers.3.attention.q.weight"
  std::vector<int64_t> global_shape;  // without padding
  ParameterShard shard;
  InitKind init = InitKind::kNormal;
  double init_standard_deviation = 0;
  bool weight_decay = false;  // two or more dimensions
  // Each tensor-parallel rank sees only its tokens under sequence parallelism: gradients are
  // summed over tp there.
  bool sequence_parallel_gradient = false;
  // A second holder of a tied embedding (last stage when pp > 1): gradients are summed over the
  // embedding group, and norms and checkpoints count the first holder alone.
  bool tied_copy = false;
  // No alignment gap before it: it extends the previous parameter's matrix (k and v after q, up
  // after gate), so one product computes both.
  bool packed_with_previous = false;
  // One rank of each expert-parallel group holds it, split over the expert-tensor ranks instead of
  // the tensor ranks; gradients are reduced over the ranks that hold the same experts.
  bool is_expert = false;
  int layer = kHeadPart;  // or part; the head holds its own copy of a tied embedding
  bool operator==(const ParameterSpec&) const = default;
};

// Of words or of positions, whichever part reads it.
bool IsEmbedding(const ParameterSpec& parameter);

// Parameters of one virtual stage in the order in which the forward pass uses them, of the experts
// those that rank `expert_rank` of the expert-parallel group holds, at most `max_experts` of each
// layer (experts are alike). Multi-token layers, numbered on
// from the last layer, belong to the head, whose stage holds the embedding that they share.
std::vector<ParameterSpec> StageParameters(const ModelSpec& model, const ParallelSpec& parallel,
                                           const VirtualStage& stage, int expert_rank = 0,
                                           int max_experts = std::numeric_limits<int>::max());
// Whether the head's stage holds the word embedding: tied, or shared with multi-token layers.
bool HeadReadsEmbedding(const ModelSpec& model);
// Parameters of the whole model, once each.
std::vector<ParameterSpec> ModelParameters(const ModelSpec& model);
// Their number (padding and tied copies not counted).
int64_t NumParameters(const ModelSpec& model);
// Those that one token meets: of the experts as many as it visits.
int64_t NumActiveParameters(const ModelSpec& model);

// The part that one tensor-parallel rank holds (of an expert: one expert-tensor rank).
struct LocalSlice {
  std::vector<int64_t> shape;  // as stored, padding included
  int dim = -1;
  int64_t begin = 0;  // global index range along dim, padding excluded: [begin, begin + size)
  int64_t size = 0;
  int64_t num_elements = 0;   // as stored
  bool first_replica = true;  // of the ranks that hold this very part
};
LocalSlice SliceOf(const ParameterSpec& parameter, int tensor_parallel_size, int tensor_rank);
// Ranks that a parameter is split over: the tensor ranks, of an expert the expert-tensor ranks.
int TensorSizeOf(const ParameterSpec& parameter, const ParallelSpec& parallel);

int64_t PaddedVocabSize(const ModelSpec& model, const ParallelSpec& parallel);

}  // namespace tessera::spec
