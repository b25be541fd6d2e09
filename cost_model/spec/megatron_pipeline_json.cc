#include "cost_model/spec/megatron_pipeline_json.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cost_model/base/check.h"
#include "cost_model/spec/stage_partition.h"

namespace tessera::spec {
namespace {

using base::Concat;
using Names = MegatronFields::Names;

const char* const kStagesKey = "layers_per_virtual_stage";
const Names kLayoutNames = {"pipeline_model_parallel_layout"};
const Names kFirstNames = {"decoder_first_pipeline_num_layers",
                           "num_layers_in_first_pipeline_stage"};
const Names kLastNames = {"decoder_last_pipeline_num_layers", "num_layers_in_last_pipeline_stage"};
const Names kLayersPerChunkNames = {"num_layers_per_virtual_pipeline_stage"};
const Names kChunksNames = {"num_virtual_stages_per_pipeline_rank",
                            "virtual_pipeline_model_parallel_size", "virtual_pipeline_size"};

// Writes "x" n times for each "x*n", and "ab" for each "(ab)*n".
class Unfolding {
 public:
  explicit Unfolding(std::string text) : text_(std::move(text)) {
    text_.erase(std::remove(text_.begin(), text_.end(), ','), text_.end());  // for the eye alone
  }

  std::optional<std::string> Unfold() && {
    constexpr std::size_t kMaxSize = 100'000;  // no pipeline has more layers
    std::string unfolded;
    while (place_ < text_.size()) {
      std::string part(1, text_[place_++]);
      if (part == "(") {
        const std::size_t end = text_.find(')', place_);
        if (end == std::string::npos) return std::nullopt;
        std::optional<std::string> inner = Unfolding(text_.substr(place_, end - place_)).Unfold();
        if (!inner) return std::nullopt;
        part = *inner;
        place_ = end + 1;
      }
      const std::optional<std::size_t> times = Times();
      if (!times || *times * part.size() + unfolded.size() > kMaxSize) return std::nullopt;
      for (std::size_t i = 0; i < *times; ++i) unfolded += part;
    }
    return unfolded;
  }

 private:
  std::optional<std::size_t> Times() {
    if (place_ == text_.size() || text_[place_] != '*') return 1;
    uint16_t times = 0;
    const char* begin = text_.data() + place_ + 1;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), times);
    if (error != std::errc()) return std::nullopt;
    place_ = static_cast<std::size_t>(end - text_.data());
    return times;
  }

  std::string text_;
  std::size_t place_ = 0;
};

// One stage of the layout: "Et*3", "t*4", "t*3mL".
std::string StageText(const VirtualStage& stage, int num_multi_token_layers) {
  std::string text = stage.has_embedding ? "E" : "";
  if (stage.num_layers > 0) text += "t";
  if (stage.num_layers > 1) text += Concat("*", stage.num_layers);
  if (!stage.has_head) return text;
  if (num_multi_token_layers > 0) text += "m";
  if (num_multi_token_layers > 1) text += Concat("*", num_multi_token_layers);
  return text + "L";
}

bool AllEqual(const std::vector<int>& values, std::size_t begin, std::size_t end) {
  return std::all_of(values.begin() + static_cast<std::ptrdiff_t>(begin),
                     values.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](int value) { return value == values[begin]; });
}

void WriteStages(MegatronFields& fields, const ModelSpec& model, const ParallelSpec& parallel) {
  const std::vector<VirtualStage> stages = PartitionStages(model, parallel);
  std::vector<int> layers;
  for (const VirtualStage& stage : stages) layers.push_back(stage.num_layers);
  const bool is_interleaved = parallel.virtual_pipeline_size > 1;
  if (AllEqual(layers, 0, layers.size())) {
    if (is_interleaved) fields.Write(kLayersPerChunkNames.front(), layers.front());
    return;
  }
  // The middle ones share what the ends leave; a first or last stage without layers needs the
  // layout's text.
  const bool is_said_by_ends = layers.front() > 0 && layers.back() > 0 &&
                               (layers.size() == 2 || AllEqual(layers, 1, layers.size() - 1));
  if (!is_interleaved && is_said_by_ends) {
    fields.Write(kFirstNames.front(), layers.front());
    fields.Write(kLastNames.front(), layers.back());
    return;
  }
  std::string layout;
  for (const VirtualStage& stage : stages) {
    if (stage.index > 0) layout += '|';
    layout += StageText(stage, model.num_multi_token_layers);
  }
  fields.Write(kLayoutNames.front(), layout);
}

// Layers of the stages where the first, the last or both are said, the others sharing the rest.
// Megatron-LM cuts a stage's layers evenly into its chunks.
std::vector<int> StagesFromEnds(MegatronFields& fields, int num_layers, int num_stages,
                                int num_chunks, std::optional<int64_t> first,
                                std::optional<int64_t> last) {
  const Names& names = first ? kFirstNames : kLastNames;
  const int64_t num_others = num_stages - (first ? 1 : 0) - (last ? 1 : 0);
  const int64_t rest = num_layers - first.value_or(0) - last.value_or(0);
  const int64_t share = num_others > 0 ? rest / num_others : 0;
  std::vector<int> layers;
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    for (int stage = 0; stage < num_stages; ++stage) {
      int64_t count = share;
      if (stage == 0 && first) count = *first;
      if (stage == num_stages - 1 && last) count = *last;
      layers.push_back(static_cast<int>(count / num_chunks));
    }
  }
  if (std::accumulate(layers.begin(), layers.end(), int64_t{0}) != num_layers) {
    fields.arguments().Fail(names, Concat(first.value_or(*last)),
                            Concat("a size with which ", num_layers, " layers cut evenly over the ",
                                   num_stages, " stages"));
  }
  return layers;
}

// Embedding and loss counted as a layer each.
std::vector<int> StagesWithAccounts(MegatronFields& fields, int num_layers, int num_stages,
                                    bool embedding, bool loss) {
  const int total = num_layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
  if (total % num_stages != 0) {
    fields.arguments().Fail(
        {"num_layers"}, Concat(num_layers),
        Concat("with embedding and loss as said, a multiple of the ", num_stages, " stages"));
  }
  std::vector<int> layers(static_cast<std::size_t>(num_stages), total / num_stages);
  if (embedding) --layers.front();
  if (loss) --layers.back();
  return layers;
}

std::optional<int64_t> ReadChunks(MegatronFields& fields, int num_layers, int num_stages) {
  MegatronArguments& arguments = fields.arguments();
  const std::optional<int64_t> chunks = arguments.Integer(kChunksNames);
  const std::optional<int64_t> layers_per_chunk = arguments.Integer(kLayersPerChunkNames);
  if (!layers_per_chunk) return chunks;
  const int64_t per_round = *layers_per_chunk * num_stages;
  if (num_layers % per_round != 0) {
    arguments.Fail(
        kLayersPerChunkNames, Concat(*layers_per_chunk),
        Concat("a size that cuts ", num_layers, " layers evenly over ", num_stages, " stages"));
  }
  return num_layers / per_round;
}

// Layers of each virtual stage, where they are said; sets the number of chunks from a layout.
std::vector<int> ReadStages(MegatronFields& fields, int num_layers, int num_stages,
                            std::optional<int64_t>& num_chunks) {
  MegatronArguments& arguments = fields.arguments();
  const std::optional<std::string> layout = arguments.Text(kLayoutNames);
  const std::optional<int64_t> first = arguments.Integer(kFirstNames, kCountRange);
  const std::optional<int64_t> last = arguments.Integer(kLastNames, kCountRange);
  const bool embedding = arguments.FlagOr({"account_for_embedding_in_pipeline_split"}, false);
  const bool loss = arguments.FlagOr({"account_for_loss_in_pipeline_split"}, false);
  const int chunks = static_cast<int>(num_chunks.value_or(1));
  if (layout) {
    std::vector<int> layers = ParseMegatronStages(fields, *layout);
    const auto num_parts = static_cast<int64_t>(layers.size());
    if (num_parts % num_stages != 0) {
      arguments.Fail(kLayoutNames, Concat(num_parts, " stages"),
                     Concat("a multiple of the pipeline size ", num_stages));
    }
    num_chunks = num_parts / num_stages;
    return layers;
  }
  if (first || last) return StagesFromEnds(fields, num_layers, num_stages, chunks, first, last);
  if (embedding || loss) {
    return StagesWithAccounts(fields, num_layers, num_stages * chunks, embedding, loss);
  }
  return {};
}

void ReadPipeline(MegatronFields& fields, const ModelSpec& model, ParallelSpec& parallel) {
  const int num_stages = parallel.pipeline_parallel_size;
  std::optional<int64_t> chunks = ReadChunks(fields, model.num_layers, num_stages);
  std::vector<int> layers = ReadStages(fields, model.num_layers, num_stages, chunks);
  fields.Set("virtual_pipeline_size", parallel.virtual_pipeline_size, chunks,
             std::optional<int64_t>(1));
  const bool is_interleaved = parallel.virtual_pipeline_size > 1;
  if (chunks || fields.is_whole()) {
    const ScheduleKind schedule =
        is_interleaved ? ScheduleKind::kInterleaved : ScheduleKind::kOneForwardOneBackward;
    if (is_interleaved || fields.is_whole()) {
      fields.Set("schedule", parallel.schedule, std::optional(schedule));
    }
  }
  if (layers.empty()) return;
  // What the even split would be is left unsaid, as our own plans leave it.
  ParallelSpec even = parallel;
  even.layers_per_virtual_stage.clear();
  if (model.num_layers >= static_cast<int64_t>(layers.size())) {
    std::vector<int> standard;
    for (const VirtualStage& stage : PartitionStages(model, even)) {
      standard.push_back(stage.num_layers);
    }
    if (layers == standard) layers.clear();
  }
  fields.Set(kStagesKey, parallel.layers_per_virtual_stage, std::optional(layers));
}

}  // namespace

std::vector<int> ParseMegatronStages(MegatronFields& fields, std::string text) {
  const std::optional<std::string> unfolded = Unfolding(text).Unfold();
  const bool is_layout = unfolded && unfolded->find_first_not_of("EtmL|") == std::string::npos &&
                         unfolded->starts_with("E") && unfolded->ends_with("L") &&
                         std::count(unfolded->begin(), unfolded->end(), 'E') == 1 &&
                         std::count(unfolded->begin(), unfolded->end(), 'L') == 1;
  if (!is_layout) {
    fields.arguments().Fail(kLayoutNames, '"' + text + '"',
                            "stages such as \"Et*3|t*4|t*3L\": embedding, layers, loss");
  }
  std::vector<int> layers = {0};
  for (const char part : *unfolded) {
    if (part == '|') layers.push_back(0);
    if (part == 't') ++layers.back();
  }
  return layers;
}

void VisitMegatronPipeline(MegatronFields& fields, const ModelSpec& model, ParallelSpec& parallel) {
  fields.Integer("pipeline_parallel_size", parallel.pipeline_parallel_size,
                 {"pipeline_model_parallel_size", "pipeline_parallel_size"}, 1, kSizeRange,
                 MegatronFields::Show::kAlways);
  fields.Integer(
      "microbatch_group_size", parallel.microbatch_group_size,
      {"microbatch_group_size_per_virtual_pipeline_stage", "microbatch_group_size_per_vp_stage"}, 0,
      kCountRange);
  bool is_exposed = !parallel.overlap_pp_comm;
  if (fields.is_reading()) {
    ReadPipeline(fields, model, parallel);
    // Megatron-LM takes no notice of it elsewhere.
    if (parallel.schedule != ScheduleKind::kInterleaved) parallel.microbatch_group_size = 0;
    const std::optional<bool> exposed = fields.arguments().Flag({"no_overlap_p2p_communication"});
    std::optional<bool> overlapped;
    if (exposed) overlapped = !*exposed;
    const bool standard = parallel.schedule == ScheduleKind::kInterleaved;
    fields.Set("overlap_pp_comm", parallel.overlap_pp_comm, overlapped, std::optional(standard));
    return;
  }
  WriteStages(fields, model, parallel);
  if (parallel.schedule != ScheduleKind::kOneForwardOneBackward &&
      parallel.schedule != ScheduleKind::kInterleaved) {
    fields.Refuse("schedule", Concat("Megatron-LM runs the schedules 1f1b and interleaved, not ",
                                     ToString(parallel.schedule)));
  }
  if (parallel.schedule != ScheduleKind::kInterleaved) return;
  constexpr int kLeastStagesWithoutOverlap = 3;
  if (is_exposed && parallel.pipeline_parallel_size < kLeastStagesWithoutOverlap) {
    fields.Warn(
        "Between two interleaved stages Megatron-LM overlaps transfers always; the plan "
        "prices them as exposed.");
    is_exposed = false;
  }
  if (is_exposed) fields.Write("no_overlap_p2p_communication");
}

}  // namespace tessera::spec
