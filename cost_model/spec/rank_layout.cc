#include "cost_model/spec/rank_layout.h"

#include <algorithm>
#include <array>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"

namespace tessera::spec {
namespace {

constexpr std::array<std::string_view, 5> kAxisNames = {"tp", "cp", "ep", "dp", "pp"};

// "tp-cp-ep-dp-pp" into its five names; throws when it is not a permutation of them.
std::vector<std::string_view> ParseRankOrder(std::string_view order) {
  std::vector<std::string_view> names;
  for (size_t begin = 0; begin <= order.size();) {
    const size_t end = std::min(order.find('-', begin), order.size());
    names.push_back(order.substr(begin, end - begin));
    begin = end + 1;
  }
  if (!std::is_permutation(names.begin(), names.end(), kAxisNames.begin(), kAxisNames.end())) {
    throw base::ConfigError("layout", "rank_order", "\"" + std::string(order) + "\"",
                            "a permutation of tp-cp-ep-dp-pp");
  }
  return names;
}

// One axis of the mesh as a rank sees it: `coordinate` is its own place.
struct MeshAxis {
  int size;
  int stride;
  int coordinate;
};

// The aligned block of `block_size` ranks along the axis that holds `rank`, ascending.
std::vector<int> Neighbours(int rank, const MeshAxis& axis, int block_size) {
  TESSERA_CHECK(axis.size % block_size == 0, "an axis of ", axis.size,
                " ranks is no multiple of a block of ", block_size);
  std::vector<int> ranks(block_size);
  const int begin = rank - axis.coordinate % block_size * axis.stride;
  for (int i = 0; i < block_size; ++i) ranks[i] = begin + i * axis.stride;
  return ranks;
}

// The ranks that differ from `rank` in the two axes only, ascending.
std::vector<int> Plane(int rank, const MeshAxis& a, const MeshAxis& b) {
  std::vector<int> ranks;
  ranks.reserve(static_cast<size_t>(a.size) * b.size);
  for (const int row : Neighbours(rank, b, b.size)) {
    for (const int member : Neighbours(row, a, a.size)) ranks.push_back(member);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

std::string_view ToString(Axis axis) {
  switch (axis) {
    case Axis::kTensor:
      return "tp";
    case Axis::kContext:
      return "cp";
    case Axis::kExpert:
      return "ep";
    case Axis::kData:
      return "dp";
    case Axis::kPipeline:
      return "pp";
    case Axis::kGradient:
      return "grad";
    case Axis::kModel:
      return "model";
    case Axis::kEmbedding:
      return "embedding";
    case Axis::kKvReplica:
      return "kv_replica";
    case Axis::kWorld:
      return "world";
  }
  base::FailCheck(__FILE__, __LINE__, "known Axis", static_cast<int>(axis));
}

RankLayout::RankLayout(const ParallelSpec& parallel) : parallel_(parallel) {
  TESSERA_CHECK(parallel.tensor_parallel_size >= 1 && parallel.context_parallel_size >= 1 &&
                    parallel.data_parallel_size >= 1 && parallel.pipeline_parallel_size >= 1 &&
                    parallel.expert_parallel_size >= 1,
                "every axis of a layout has at least one rank");
  int stride = 1;
  for (const std::string_view name : ParseRankOrder(parallel.rank_order)) {
    if (name == "tp") {
      tensor_stride_ = stride;
      stride *= parallel.tensor_parallel_size;
    } else if (name == "cp") {
      context_stride_ = stride;
      stride *= parallel.context_parallel_size;
    } else if (name == "dp") {
      data_stride_ = stride;
      stride *= parallel.data_parallel_size;
    } else if (name == "pp") {
      pipeline_stride_ = stride;
      stride *= parallel.pipeline_parallel_size;
    }
    // "ep" takes no ranks of its own: experts share the data axis.
  }
}

int RankLayout::world_size() const { return WorldSize(parallel_); }

RankCoord RankLayout::CoordOf(int rank) const {
  TESSERA_CHECK(rank >= 0 && rank < world_size(), "rank ", rank, " outside world of ",
                world_size());
  return {.tensor = rank / tensor_stride_ % parallel_.tensor_parallel_size,
          .context = rank / context_stride_ % parallel_.context_parallel_size,
          .data = rank / data_stride_ % parallel_.data_parallel_size,
          .pipeline = rank / pipeline_stride_ % parallel_.pipeline_parallel_size};
}

int RankLayout::RankOf(const RankCoord& coord) const {
  TESSERA_CHECK(coord.tensor >= 0 && coord.tensor < parallel_.tensor_parallel_size,
                "tensor coordinate ", coord.tensor);
  TESSERA_CHECK(coord.context >= 0 && coord.context < parallel_.context_parallel_size,
                "context coordinate ", coord.context);
  TESSERA_CHECK(coord.data >= 0 && coord.data < parallel_.data_parallel_size, "data coordinate ",
                coord.data);
  TESSERA_CHECK(coord.pipeline >= 0 && coord.pipeline < parallel_.pipeline_parallel_size,
                "pipeline coordinate ", coord.pipeline);
  return coord.tensor * tensor_stride_ + coord.context * context_stride_ +
         coord.data * data_stride_ + coord.pipeline * pipeline_stride_;
}

std::vector<int> RankLayout::GroupOf(int rank, Axis axis, int num_key_value_heads) const {
  const RankCoord coord = CoordOf(rank);
  const MeshAxis tensor{parallel_.tensor_parallel_size, tensor_stride_, coord.tensor};
  const MeshAxis context{parallel_.context_parallel_size, context_stride_, coord.context};
  const MeshAxis data{parallel_.data_parallel_size, data_stride_, coord.data};
  const MeshAxis pipeline{parallel_.pipeline_parallel_size, pipeline_stride_, coord.pipeline};
  switch (axis) {
    case Axis::kTensor:
      return Neighbours(rank, tensor, tensor.size);
    case Axis::kContext:
      return Neighbours(rank, context, context.size);
    case Axis::kExpert:
      return Neighbours(rank, data, parallel_.expert_parallel_size);
    case Axis::kData:
      return Neighbours(rank, data, data.size);
    case Axis::kPipeline:
      return Neighbours(rank, pipeline, pipeline.size);
    case Axis::kGradient:
      return Plane(rank, context, data);
    case Axis::kModel:
      return Plane(rank, tensor, pipeline);
    case Axis::kEmbedding: {
      const int last = pipeline.size - 1;
      if (last == 0 || (coord.pipeline != 0 && coord.pipeline != last)) return {rank};
      const int first_rank = rank - coord.pipeline * pipeline.stride;
      return {first_rank, first_rank + last * pipeline.stride};
    }
    case Axis::kKvReplica: {
      if (num_key_value_heads <= 0 || num_key_value_heads >= tensor.size) return {rank};
      TESSERA_CHECK(tensor.size % num_key_value_heads == 0, "tp ", tensor.size,
                    " is no multiple of ", num_key_value_heads, " key and value heads");
      return Neighbours(rank, tensor, tensor.size / num_key_value_heads);
    }
    case Axis::kWorld:
      return Neighbours(rank, {world_size(), 1, rank}, world_size());
  }
  base::FailCheck(__FILE__, __LINE__, "known Axis", static_cast<int>(axis));
}

}  // namespace tessera::spec
