#include "planner/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "cost_model/memory.h"
#include "planner/family_search.h"
#include "planner/target.h"

namespace tessera::planner {
namespace {

// Rules that a smaller or another choice within the mesh may keep.
bool DependsOnChoices(const std::string& constraint) {
  static constexpr const char* kConstraints[] = {
      "microbatches % pp",     "microbatches in groups", "sequence % tp",
      "vpp needs interleaved", "vpp needs pp > 1",       "interleaved needs vpp > 1",
      "target schedule",       "target overlap",         "target zero stage",
      "target uneven stages",  "target context kind",    "recomputed layers entries",
      "not executed"};
  return std::find(std::begin(kConstraints), std::end(kConstraints), constraint) !=
         std::end(kConstraints);
}

class Searcher {
 public:
  Searcher(const Request& request, cost_model::JobCosts& costs, int num_rows, int num_meshes)
      : request_(request),
        costs_(costs),
        ranking_(request, num_rows, num_meshes),
        families_(request, costs, ranking_, counts_) {}

  SearchResult Run() {
    for (spec::ParallelSpec& mesh : MeshesOf(request_)) meshes_.push_back({std::move(mesh), {}});
    for (size_t i = 0; i < meshes_.size(); ++i) ListFamilies(i);
    std::stable_sort(open_.begin(), open_.end(),
                     [](const Family& a, const Family& b) { return a.bound_s < b.bound_s; });
    size_t next = 0;
    while (true) {
      const bool has_family = next < open_.size();
      const double family_s = has_family ? open_[next].bound_s : kNever;
      const double candidate_s = families_.NextBound();
      const double least_s = std::min(family_s, candidate_s);
      if (least_s == kNever || least_s > ranking_.LongestStep()) break;
      if (candidate_s < family_s) {
        families_.Advance();
      } else {
        families_.Open(meshes_[open_[next].mesh], open_[next]);
        ++next;
      }
    }
    for (; next < open_.size(); ++next) counts_.num_pruned += open_[next].num_layouts;
    families_.CountTheRest();
    SearchResult result = counts_.TakeResult();
    result.rows = Priced(ranking_.TakeRows());
    result.meshes = Priced(ranking_.TakeMeshes());
    return result;
  }

 private:
  std::vector<RankedLayout> Priced(std::vector<spec::ParallelSpec> layouts) const {
    std::vector<RankedLayout> priced;
    for (spec::ParallelSpec& layout : layouts) {
      cost_model::StepPrice price = cost_model::PriceStep(costs_, layout);
      priced.push_back({std::move(layout), std::move(price.report)});
    }
    return priced;
  }

  // Counts a mesh out, or lists its families.
  void ListFamilies(size_t mesh) {
    const MeshChoices choices = ChoicesOf(request_, meshes_[mesh].layout);
    KeepRunnableFinishes(choices, meshes_[mesh]);
    const std::vector<PlacedFinish>& finishes = meshes_[mesh].finishes;
    spec::ParallelSpec layout = meshes_[mesh].layout;
    layout.zero_stage =
        (finishes.empty() ? choices.finishes.front() : finishes.front().finish).zero_stage;
    const auto num_finishes = static_cast<int64_t>(choices.finishes.size());
    std::map<int, int64_t> num_partitions;  // by chunks
    int64_t num_of_chunkings = 0;
    for (const Chunking& chunking : choices.chunkings) {
      const int num_stages = std::max(1, layout.pipeline_parallel_size) * chunking.num_chunks;
      const auto num = static_cast<int64_t>(families_.Partitions(num_stages).size());
      num_partitions[chunking.num_chunks] = num;
      num_of_chunkings += num;
    }
    const std::optional<spec::Violation> violation = FirstViolation(choices, layout);
    if (violation && !DependsOnChoices(violation->constraint)) {
      const int64_t num_layouts = num_of_chunkings * NumWithinChunking(choices);
      counts_.Reject(*violation, num_layouts);
      order_ += num_layouts;
      return;
    }
    last_choice_.reset();
    ForEachFamily(choices, [&](const FamilyChoice& choice) {
      ListFamily({.choice = choice,
                  .mesh = mesh,
                  .order = order_,
                  .num_layouts = num_finishes * num_partitions[choice.chunking.num_chunks]},
                 num_finishes, layout);
    });
  }

  // Sets the ends of a step that the target runs on a mesh, and why others are out.
  void KeepRunnableFinishes(const MeshChoices& choices, MeshSpace& mesh) {
    finish_violation_.reset();
    spec::ParallelSpec sharded;
    sharded.data_parallel_size = mesh.layout.data_parallel_size * mesh.layout.context_parallel_size;
    int place = 0;
    for (const Finish& finish : choices.finishes) {
      sharded.zero_stage = finish.zero_stage;
      if (auto violation = FindTargetViolation(request_, sharded)) {
        finish_violation_ = std::move(violation);
      } else {
        mesh.finishes.push_back({finish, place});
      }
      ++place;
    }
  }

  // Counts a family out, or gives it its bound. `layout` has the mesh.
  void ListFamily(Family family, int64_t num_finishes, spec::ParallelSpec& layout) {
    const FamilyChoice& choice = family.choice;
    order_ += family.num_layouts;
    Apply(choice, request_, layout);
    // Rules do not look at what is recomputed.
    if (!last_choice_ || !DiffersInRecomputeAlone(choice, *last_choice_)) {
      violation_ = FindRuleViolation(request_, layout);
    }
    last_choice_ = choice;
    // Other partitions may do.
    const bool is_of_some = violation_ && violation_->constraint == "target uneven stages";
    if (violation_ && !is_of_some) {
      counts_.Reject(*violation_, family.num_layouts);
      return;
    }
    if (finish_violation_) {
      const int64_t num_partitions = family.num_layouts / num_finishes;
      const auto num_runnable = static_cast<int64_t>(meshes_[family.mesh].finishes.size());
      counts_.Reject(*finish_violation_, (num_finishes - num_runnable) * num_partitions);
      family.num_layouts = num_runnable * num_partitions;
      if (num_runnable == 0) return;
    }
    const bool may_keep_all = choice.recompute == RecomputeChoice::kSome;
    SetRecompute(request_, may_keep_all ? RecomputeChoice::kNone : choice.recompute, 0, layout);
    family.bound_s = StepTimeBound(costs_, layout);
    SetRecompute(request_, RecomputeChoice::kNone, 0, layout);
    open_.push_back(family);
  }

  std::optional<spec::Violation> FirstViolation(const MeshChoices& choices,
                                                spec::ParallelSpec layout) const {
    const FamilyChoice plainest{.micro_batch_size = choices.micro_batch_sizes.front(),
                                .chunking = choices.chunkings.front(),
                                .context_kind = choices.context_kinds.front(),
                                .sequence_parallel = choices.sequence_parallels.front(),
                                .overlap_tp_comm = choices.overlap_tp_comms.front()};
    Apply(plainest, request_, layout);
    return FindRuleViolation(request_, layout);
  }

  static bool DiffersInRecomputeAlone(FamilyChoice a, const FamilyChoice& b) {
    a.recompute = b.recompute;
    return a == b;
  }

  const Request& request_;
  cost_model::JobCosts& costs_;
  SearchCounts counts_;
  Ranking ranking_;
  FamilySearch families_;
  std::vector<MeshSpace> meshes_;
  std::vector<Family> open_;
  std::optional<FamilyChoice> last_choice_;
  std::optional<spec::Violation> violation_;         // of it
  std::optional<spec::Violation> finish_violation_;  // of some ends of the step on the mesh
  int64_t order_ = 0;
};

}  // namespace

std::optional<spec::Violation> FindRuleViolation(const Request& request,
                                                 const spec::ParallelSpec& parallel) {
  const cost_model::Job& job = request.job;
  // First what no other size of an axis would change.
  std::vector<spec::Violation> violations = cost_model::FindUnpriced(job, parallel);
  if (violations.empty()) {
    violations = spec::FindViolations(job.model, job.training, parallel, job.num_devices);
  }
  if (!violations.empty()) return std::move(violations.front());
  return FindTargetViolation(request, parallel);
}

cost_model::StepPrice PriceLayout(const Request& request, const spec::ParallelSpec& parallel,
                                  cost_model::JobCosts& costs) {
  const cost_model::Job& job = request.job;
  std::vector<spec::Violation> violations = cost_model::FindUnpriced(job, parallel);
  if (violations.empty()) {
    violations = spec::FindViolations(job.model, job.training, parallel, job.num_devices);
  }
  if (!violations.empty()) return {.report = {}, .violations = std::move(violations)};
  return cost_model::PriceStep(costs, parallel);
}

double NeededBytesOf(const Request& request, const RankedLayout& layout) {
  return cost_model::NeededBytes(layout.report.stages, request.job.cluster, layout.parallel,
                                 request.job.runtime);
}

SearchResult Search(const Request& request, cost_model::JobCosts& costs) {
  return Searcher(request, costs, std::max(request.num_rows, kNumKeptRows), kNumKeptMeshes).Run();
}

SearchResult SearchBest(const Request& request, cost_model::JobCosts& costs) {
  return Searcher(request, costs, 1, 1).Run();
}

}  // namespace tessera::planner
