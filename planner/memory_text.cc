#include "planner/memory_text.h"

#include <algorithm>
#include <vector>

#include "cost_model/base/check.h"
#include "cost_model/memory.h"
#include "cost_model/spec/kept_tensors.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

using base::Concat;

std::string BytesText(int64_t bytes) { return FormatBytes(static_cast<double>(bytes)); }

size_t FullestStage(const std::vector<spec::StageMemory>& stages) {
  const auto fullest = std::max_element(
      stages.begin(), stages.end(),
      [](const auto& one, const auto& other) { return one.Total() < other.Total(); });
  return static_cast<size_t>(fullest - stages.begin());
}

// The terms, and below them what they are known from, once each.
std::string TermsTable(const spec::StageMemory& stage) {
  TextTable table({"term", "bytes", "tag", "source"});
  std::vector<std::string> sources;
  for (const spec::MemoryTerm& term : stage.terms) {
    auto source = std::find(sources.begin(), sources.end(), term.source);
    if (source == sources.end()) source = sources.insert(source, term.source);
    table.AddRow({term.name, BytesText(term.num_bytes), term.tag,
                  Concat("[", source - sources.begin() + 1, "]")});
  }
  std::string text = table.ToString(2);
  for (size_t i = 0; i < sources.size(); ++i) {
    text += WrapText(sources[i] + ".", Concat("  [", i + 1, "] "));
  }
  return text;
}

// Tensors of a layer for one micro-batch, by the first form of layer that the stage holds.
std::string LayerTable(const Request& request, const spec::ParallelSpec& parallel, int stage) {
  const cost_model::Job& job = request.job;
  const spec::LocalShape shape = spec::MakeLocalShape(job.model, job.training, parallel);
  const spec::VirtualStage chunk =
      spec::StagesOf(spec::PartitionStages(job.model, parallel), stage).front();
  const spec::LayerForm form = spec::LayerFormOf(job.model, chunk.first_layer);
  const spec::LayerTensors tensors =
      spec::LayerTensorsOf(job.model, job.training, parallel, form, shape, job.runtime);
  TextTable table({"tensor", "bytes", "held"});
  for (const spec::SavedTensor& tensor : tensors.kept) {
    table.AddRow({tensor.name, BytesText(tensor.num_bytes), "until the backward pass"});
  }
  for (const spec::SavedTensor& tensor : tensors.restored) {
    table.AddRow({tensor.name, BytesText(tensor.num_bytes), "recomputed, one layer at a time"});
  }
  return table.ToString(2);
}

}  // namespace

std::string MemoryTermsText(const Request& request, const RankedLayout& layout) {
  const std::vector<spec::StageMemory>& stages = layout.report.stages;
  const size_t fullest = FullestStage(stages);
  const spec::StageMemory& stage = stages[fullest];
  const spec::RuntimeSpec& runtime = request.job.runtime;
  std::string text =
      Concat("Memory of stage ", fullest, ", ", runtime.name, ":\n", TermsTable(stage));
  text += WrapText(
      Concat("Allocated ", BytesText(stage.Allocated()), ", reserved ", BytesText(stage.Reserved()),
             ", used (nvidia-smi) ", BytesText(stage.Used()), "; the limit is held against ",
             FormatPercent(runtime.allocator_reserve_margin), " more of the allocated bytes."),
      "  ");
  return text + Concat("\nA layer of it, for one micro-batch:\n",
                       LayerTable(request, layout.parallel, static_cast<int>(fullest)));
}

}  // namespace tessera::planner
