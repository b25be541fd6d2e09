#include "cost_model/spec/rank_layout.h"

#include <algorithm>
#include <array>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"

namespace tessera::spec {
namespace {

using AxisNames = std::array<std::string_view, 5>;
constexpr AxisNames kAxisNames = {"tp", "cp", "ep", "dp", "pp"};

// "tp-cp-ep-dp-pp" into its five names; throws when it is not a permutation of them.
AxisNames ParseRankOrder(std::string_view order) {
  AxisNames names;
  size_t num_names = 0;
  for (size_t begin = 0; begin <= order.size() && num_names <= names.size(); ++num_names) {
    const size_t end = std::min(order.find('-', begin), order.size());
    if (num_names < names.size()) names[num_names] = order.substr(begin, end - begin);
    begin = end + 1;
  }
  if (num_names != names.size() ||
      !std::is_permutation(names.begin(), names.end(), kAxisNames.begin())) {
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
    case Axis::kExpertTensor:
      return "etp";
    case Axis::kExpertData:
      return "edp";
    case Axis::kShard:
      return "shard";
    case Axis::kShardReplica:
      return "shard_replica";
    case Axis::kExpertShard:
      return "expert_shard";
    case Axis::kExpertShardReplica:
      return "expert_shard_replica";
  }
  base::FailCheck(__FILE__, __LINE__, "known Axis", static_cast<int>(axis));
}

RankLayout::RankLayout(const ParallelSpec& parallel) {
  TESSERA_CHECK(parallel.tensor_parallel_size >= 1 && parallel.context_parallel_size >= 1 &&
                    parallel.data_parallel_size >= 1 && parallel.pipeline_parallel_size >= 1 &&
                    parallel.expert_parallel_size >= 1 && parallel.expert_tensor_parallel_size >= 0,
                "every axis of a layout has at least one rank");
  tensor_.size = parallel.tensor_parallel_size;
  context_.size = parallel.context_parallel_size;
  data_.size = parallel.data_parallel_size;
  pipeline_.size = parallel.pipeline_parallel_size;
  expert_tensor_.size = ExpertTensorSize(parallel);
  expert_.size = parallel.expert_parallel_size;
  // Rounded down where the sizes clash, which FindViolations tells.
  expert_data_.size = ExpertDataSize(parallel);
  shard_size_ = ShardGroupSize(parallel);
  stage_tensor_ = tensor_;
  stage_context_ = context_;
  stage_data_ = data_;

  const AxisNames order = ParseRankOrder(parallel.rank_order);
  const auto set_strides = [&order](std::array<StageAxis*, 5> axes) {  // in the order of kAxisNames
    int stride = 1;
    for (const std::string_view name : order) {
      StageAxis* const axis =
          axes[std::find(kAxisNames.begin(), kAxisNames.end(), name) - kAxisNames.begin()];
      if (axis == nullptr) continue;
      axis->stride = stride;
      stride *= axis->size;
    }
  };
  set_strides({&tensor_, &context_, nullptr, &data_, &pipeline_});
  set_strides({&stage_tensor_, &stage_context_, nullptr, &stage_data_, nullptr});
  set_strides({&expert_tensor_, nullptr, &expert_, &expert_data_, nullptr});
}

int RankLayout::world_size() const {
  return tensor_.size * context_.size * data_.size * pipeline_.size;
}

RankCoord RankLayout::CoordOf(int rank) const {
  TESSERA_CHECK(rank >= 0 && rank < world_size(), "rank ", rank, " outside world of ",
                world_size());
  return {.tensor = rank / tensor_.stride % tensor_.size,
          .context = rank / context_.stride % context_.size,
          .data = rank / data_.stride % data_.size,
          .pipeline = rank / pipeline_.stride % pipeline_.size};
}

int RankLayout::RankOf(const RankCoord& coord) const {
  TESSERA_CHECK(coord.tensor >= 0 && coord.tensor < tensor_.size, "tensor coordinate ",
                coord.tensor);
  TESSERA_CHECK(coord.context >= 0 && coord.context < context_.size, "context coordinate ",
                coord.context);
  TESSERA_CHECK(coord.data >= 0 && coord.data < data_.size, "data coordinate ", coord.data);
  TESSERA_CHECK(coord.pipeline >= 0 && coord.pipeline < pipeline_.size, "pipeline coordinate ",
                coord.pipeline);
  return coord.tensor * tensor_.stride + coord.context * context_.stride +
         coord.data * data_.stride + coord.pipeline * pipeline_.stride;
}

int RankLayout::StageIndexOf(const RankCoord& coord) const {
  return coord.tensor * stage_tensor_.stride + coord.context * stage_context_.stride +
         coord.data * stage_data_.stride;
}

int RankLayout::RankAtStageIndex(int index, int pipeline) const {
  return RankOf({.tensor = index / stage_tensor_.stride % tensor_.size,
                 .context = index / stage_context_.stride % context_.size,
                 .data = index / stage_data_.stride % data_.size,
                 .pipeline = pipeline});
}

int RankLayout::num_shard_replicas() const { return gradient_size() / shard_size_; }

RankLayout::StageAxis RankLayout::ExpertAxisOf(Axis axis) const {
  if (axis == Axis::kExpert) return expert_;
  if (axis == Axis::kExpertTensor) return expert_tensor_;
  return expert_data_;
}

std::vector<int> RankLayout::ExpertGroup(int rank, const StageAxis& axis, int size,
                                         int step) const {
  TESSERA_CHECK(
      expert_tensor_.size * expert_.size * expert_data_.size == tensor_.size * gradient_size(),
      "expert groups of etp ", expert_tensor_.size, " x ep ", expert_.size, " do not cover the ",
      tensor_.size * gradient_size(), " ranks of a stage");
  const RankCoord coord = CoordOf(rank);
  const int index = StageIndexOf(coord);
  const int own = index / axis.stride % axis.size;
  const int first = own / (size * step) * (size * step) + own % step;
  std::vector<int> ranks(size);
  for (int i = 0; i < size; ++i) {
    ranks[i] = RankAtStageIndex(index + (first + i * step - own) * axis.stride, coord.pipeline);
  }
  return ranks;
}

std::vector<int> RankLayout::GradientSubgroup(int rank, int size, int step) const {
  const std::vector<int> group = GroupOf(rank, Axis::kGradient);
  const int own = IndexIn(rank, Axis::kGradient);
  const int first = own / (size * step) * (size * step) + own % step;
  std::vector<int> ranks(size);
  for (int i = 0; i < size; ++i) ranks[i] = group.at(first + i * step);
  return ranks;
}

std::vector<int> RankLayout::GroupOf(int rank, Axis axis, int num_key_value_heads) const {
  const RankCoord coord = CoordOf(rank);
  const MeshAxis tensor{tensor_.size, tensor_.stride, coord.tensor};
  const MeshAxis context{context_.size, context_.stride, coord.context};
  const MeshAxis data{data_.size, data_.stride, coord.data};
  const MeshAxis pipeline{pipeline_.size, pipeline_.stride, coord.pipeline};
  const int num_replicas = num_shard_replicas();
  switch (axis) {
    case Axis::kTensor:
      return Neighbours(rank, tensor, tensor.size);
    case Axis::kContext:
      return Neighbours(rank, context, context.size);
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
    case Axis::kExpert:
    case Axis::kExpertTensor:
    case Axis::kExpertData: {
      const StageAxis expert_axis = ExpertAxisOf(axis);
      return ExpertGroup(rank, expert_axis, expert_axis.size, 1);
    }
    case Axis::kShard:
      return GradientSubgroup(rank, shard_size_, 1);
    case Axis::kShardReplica:
      return GradientSubgroup(rank, num_replicas, shard_size_);
    case Axis::kExpertShard:
      return ExpertGroup(rank, expert_data_, expert_data_.size / num_replicas, 1);
    case Axis::kExpertShardReplica:
      return ExpertGroup(rank, expert_data_, num_replicas, expert_data_.size / num_replicas);
  }
  base::FailCheck(__FILE__, __LINE__, "known Axis", static_cast<int>(axis));
}

int RankLayout::IndexIn(int rank, Axis axis) const {
  const std::vector<int> group = GroupOf(rank, axis);
  return static_cast<int>(std::find(group.begin(), group.end(), rank) - group.begin());
}

GroupShape RankLayout::ShapeOf(Axis axis) const {
  const int num_replicas = num_shard_replicas();
  const int expert_shard = std::max(1, expert_data_.size / num_replicas);
  // `second` is the way to the second member; counted in ranks of a stage for expert axes.
  const auto shape = [](int size, int64_t second) {
    return GroupShape{.size = size, .stride = size > 1 ? second : 1};
  };
  const auto plane = [&](const StageAxis& a, const StageAxis& b) {
    if (a.size == 1) return shape(b.size, b.stride);
    if (b.size == 1) return shape(a.size, a.stride);
    return shape(a.size * b.size, std::min(a.stride, b.stride));
  };
  const auto expert = [&](int size, int second) {
    return shape(size, size > 1 ? RankAtStageIndex(second, 0) : 1);
  };
  // The way to the n-th member of the gradient group.
  const auto gradient_member = [&](int n) {
    const bool context_first = context_.stride < data_.stride;
    const StageAxis& a = context_first ? context_ : data_;
    const StageAxis& b = context_first ? data_ : context_;
    return n % a.size * a.stride + n / a.size * b.stride;
  };
  switch (axis) {
    case Axis::kTensor:
      return shape(tensor_.size, tensor_.stride);
    case Axis::kContext:
      return shape(context_.size, context_.stride);
    case Axis::kData:
      return shape(data_.size, data_.stride);
    case Axis::kPipeline:
      return shape(pipeline_.size, pipeline_.stride);
    case Axis::kGradient:
      return plane(context_, data_);
    case Axis::kModel:
      return plane(tensor_, pipeline_);
    case Axis::kEmbedding:
      return shape(std::min(2, pipeline_.size), (pipeline_.size - 1) * pipeline_.stride);
    case Axis::kWorld:
      return shape(world_size(), 1);
    case Axis::kExpert:
      return expert(expert_.size, expert_.stride);
    case Axis::kExpertTensor:
      return expert(expert_tensor_.size, expert_tensor_.stride);
    case Axis::kExpertData:
      return expert(expert_data_.size, expert_data_.stride);
    case Axis::kShard:
      return shape(shard_size_, gradient_member(1));
    case Axis::kShardReplica:
      return shape(num_replicas, gradient_member(shard_size_));
    case Axis::kExpertShard:
      return expert(expert_shard, expert_data_.stride);
    case Axis::kExpertShardReplica:
      return expert(expert_data_.size / expert_shard, expert_shard * expert_data_.stride);
    case Axis::kKvReplica:
      break;
  }
  base::FailCheck(__FILE__, __LINE__, "an axis with a shape", ToString(axis));
}

}  // namespace tessera::spec
