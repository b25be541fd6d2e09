#include "engine/comm/thread_collective.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "cost_model/base/check.h"
#include "cost_model/base/math.h"
#include "engine/comm/copy_bytes.h"
#include "engine/comm/reduce.h"

namespace tessera::engine {
namespace {

// Large enough to hide the claiming of a fragment, small enough for two cores to share 256 KiB and
// for the inputs of a fragment to stay in the second-level cache.
constexpr int64_t kFragmentBytes = 128 * 1024;

std::string_view ToString(base::ReduceOp op) {
  switch (op) {
    case base::ReduceOp::kSum:
      return "sum";
    case base::ReduceOp::kMax:
      return "max";
    case base::ReduceOp::kMin:
      return "min";
    case base::ReduceOp::kAvg:
      return "avg";
  }
  return "?";
}

bool IsReduction(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
}

// Blocks of `count` elements that are worked on independently.
int64_t NumBlocks(CollectiveKind kind, int num_ranks) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
      return 1;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllGather:
      return num_ranks;
    case CollectiveKind::kAllToAll:
      return static_cast<int64_t>(num_ranks) * num_ranks;
    case CollectiveKind::kBarrier:
    case CollectiveKind::kSplit:
      return 0;
  }
  return 0;
}

int64_t FragmentElements(base::DType dtype) { return kFragmentBytes / SizeBytes(dtype); }

int64_t FragmentsPerBlock(const CollectiveHeader& header) {
  return base::CeilDiv(header.count, FragmentElements(header.dtype));
}

// Copies elements [begin, begin + n) of input block `source_block` to output block `target_block`.
struct Copier {
  int64_t element_bytes;
  int64_t count;
  int64_t begin;
  int64_t n;
  int64_t all_bytes;  // that the collective copies

  void operator()(const void* source, int64_t source_block, void* target,
                  int64_t target_block) const {
    const auto* from =
        static_cast<const std::byte*>(source) + (source_block * count + begin) * element_bytes;
    auto* to = static_cast<std::byte*>(target) + (target_block * count + begin) * element_bytes;
    CopyBytes(from, to, n * element_bytes, all_bytes);
  }
};

}  // namespace

std::string_view ToString(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kBarrier:
      return "barrier";
    case CollectiveKind::kSplit:
      return "split";
  }
  return "?";
}

std::string ToString(const CollectiveHeader& header) {
  const std::string name(ToString(header.kind));
  if (NumBlocks(header.kind, 1) == 0) return name;
  std::string text = base::Concat(name, '(', header.count, ' ', base::ToString(header.dtype));
  if (IsReduction(header.kind)) text += base::Concat(", ", ToString(header.op));
  if (header.kind == CollectiveKind::kBroadcast) text += base::Concat(", root ", header.root);
  return text + ')';
}

int64_t WorkBytes(const CollectiveHeader& header, int num_ranks) {
  return NumBlocks(header.kind, num_ranks) * header.count * SizeBytes(header.dtype);
}

int64_t NumFragments(const CollectiveHeader& header, int num_ranks) {
  return NumBlocks(header.kind, num_ranks) * FragmentsPerBlock(header);
}

void RunFragment(const Collective& collective, int64_t index) {
  const CollectiveHeader& header = collective.header;
  const std::span<const void* const> inputs(collective.inputs);
  const std::span<void* const> outputs(collective.outputs);
  const int64_t num_ranks = static_cast<int64_t>(inputs.size());
  const int64_t block = index / FragmentsPerBlock(header);
  const int64_t begin = index % FragmentsPerBlock(header) * FragmentElements(header.dtype);
  const int64_t n = std::min(FragmentElements(header.dtype), header.count - begin);
  const Copier copy{SizeBytes(header.dtype), header.count, begin, n,
                    WorkBytes(header, static_cast<int>(num_ranks))};
  switch (header.kind) {
    case CollectiveKind::kAllReduce:
      return ReduceElements(inputs, begin, outputs, begin, n, header.dtype, header.op);
    case CollectiveKind::kReduceScatter:
      return ReduceElements(inputs, block * header.count + begin, outputs.subspan(block, 1), begin,
                            n, header.dtype, header.op);
    case CollectiveKind::kAllGather:
      for (void* output : outputs) copy(inputs[block], 0, output, block);
      return;
    case CollectiveKind::kBroadcast:
      for (void* output : outputs) copy(inputs[header.root], 0, output, 0);
      return;
    case CollectiveKind::kAllToAll: {
      const int64_t source = block / num_ranks;
      const int64_t target = block % num_ranks;
      return copy(inputs[source], target, outputs[target], source);
    }
    case CollectiveKind::kBarrier:
    case CollectiveKind::kSplit:
      break;
  }
  base::FailCheck(__FILE__, __LINE__, "collective with data", ToString(header.kind));
}

}  // namespace tessera::engine
