#include "engine/train/fault_finder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

// Of a part in a forward pass, from 0.
int64_t TurnOf(int part) {
  if (part == spec::kEmbeddingPart) return 0;
  if (part == spec::kHeadPart) return std::numeric_limits<int32_t>::max();
  return part + 1;
}

std::string OutputOf(int part) {
  if (part == spec::kEmbeddingPart) return "the output of the embedding";
  if (part == spec::kHeadPart) return "the output of the head";
  return base::Concat("the output of layer ", part);
}

}  // namespace

bool FaultFinder::IsFinite(kernels::ConstArray values, int64_t num_elements) const {
  double sum = 0;  // of squares, in double: finite where all are
  context_.backend.CopyToDevice(scratch_, &sum, sizeof(sum));
  context_.backend.SumOfSquares({.x = values, .sum = scratch_, .n = num_elements});
  context_.backend.CopyToHost(&sum, scratch_, sizeof(sum));
  return std::isfinite(sum);
}

void FaultFinder::Note(int64_t order, const std::string& tensor) {
  if (fault_.order > 0 && fault_.order <= order) return;
  fault_ = {.order = order, .rank = host_world_.rank(), .coord = context_.groups.coord};
  tensor.copy(fault_.tensor, sizeof(fault_.tensor) - 1);  // behind it lies a zero
}

template <typename Look>
void FaultFinder::ForEachPiece(bool owned_alone, const Look& look) const {
  for (size_t i = 0; i < store_.parameters().size(); ++i) {
    const spec::FlatParameter& flat = store_.layout().parameters[i];
    if (!owned_alone) {
      look(store_.parameters()[i], nullptr, flat.offset, flat.num_elements);
      continue;
    }
    for (const spec::OwnedRange& range : store_.owned()) {
      const int64_t begin = std::max(range.offset, flat.offset);
      const int64_t end =
          std::min(range.offset + range.num_elements, flat.offset + flat.num_elements);
      if (begin < end) look(store_.parameters()[i], &range, begin, end - begin);
    }
  }
}

void FaultFinder::LookAtWeights() {
  ForEachPiece(store_.keeps_owned_weights(), [&](const spec::ParameterSpec& parameter,
                                                 const spec::OwnedRange* range, int64_t begin,
                                                 int64_t num_elements) {
    const kernels::Array weights = range != nullptr
                                       ? store_.OwnWeights(*range, begin - range->offset)
                                       : store_.weights().At(begin);
    if (IsFinite(weights, num_elements)) return;
    Note(1 + TurnOf(parameter.layer), "the parameter " + parameter.name);
  });
}

void FaultFinder::LookAtGradients() {
  ForEachPiece(/*owned_alone=*/true,
               [&](const spec::ParameterSpec& parameter, const spec::OwnedRange* range,
                   int64_t begin, int64_t num_elements) {
                 if (IsFinite(store_.OwnGradients(*range, begin - range->offset), num_elements)) {
                   return;
                 }
                 Note(1 + TurnOf(spec::kHeadPart) - TurnOf(parameter.layer),
                      "the gradient of " + parameter.name);
               });
}

std::string FaultFinder::FirstOfAll() const {
  std::vector<Fault> faults(static_cast<size_t>(host_world_.size()));
  host_world_.AllGather(&fault_, faults.data(), sizeof(Fault), base::DType::kUInt8);
  const Fault* first = nullptr;
  for (const Fault& fault : faults) {
    if (fault.order > 0 && (first == nullptr || fault.order < first->order)) first = &fault;
  }
  if (first == nullptr) return "";
  const spec::RankCoord& coord = first->coord;
  return base::Concat(first->tensor, " on rank ", first->rank, " (pp ", coord.pipeline, " dp ",
                      coord.data, " cp ", coord.context, " tp ", coord.tensor, ") is not finite");
}

std::string FaultFinder::Find(
    const std::function<void(const ForwardOnlyRunner::Observer& observer)>& run_forward) {
  fault_ = {};
  LookAtWeights();
  std::string found = FirstOfAll();
  if (!found.empty()) return found;
  // A micro-batch after the other, each in the order of its parts.
  constexpr int64_t kTurns = int64_t{1} << 32;
  run_forward([&](int microbatch, int part, kernels::ConstArray output, int64_t num_elements) {
    if (IsFinite(output, num_elements)) return;
    Note(1 + microbatch * kTurns + TurnOf(part),
         base::Concat(OutputOf(part), " in micro-batch ", microbatch));
  });
  found = FirstOfAll();
  if (!found.empty()) return found;
  LookAtGradients();
  return FirstOfAll();
}

}  // namespace tessera::engine
