#include "engine/train/trace.h"

#include <algorithm>
#include <utility>

#include "cost_model/base/error.h"
#include "cost_model/spec/file_write.h"
#include "cost_model/spec/trace_json.h"

namespace tessera::engine {
namespace {

// Every rank's items, by rank; ranks may have different numbers of them.
template <typename T>
std::vector<std::vector<T>> GatherAll(const std::vector<T>& mine, Communicator& world) {
  const auto num_ranks = static_cast<size_t>(world.size());
  const auto num_mine = static_cast<int64_t>(mine.size());
  std::vector<int64_t> counts(num_ranks);
  world.AllGather(&num_mine, counts.data(), 1, base::DType::kInt64);
  // An all-gather takes the same from every rank.
  const auto most = static_cast<size_t>(*std::max_element(counts.begin(), counts.end()));
  std::vector<T> padded = mine;
  padded.resize(most);
  std::vector<T> gathered(num_ranks * most);
  world.AllGather(padded.data(), gathered.data(), static_cast<int64_t>(most * sizeof(T)),
                  base::DType::kUInt8);
  std::vector<std::vector<T>> all(num_ranks);
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const auto first = gathered.begin() + static_cast<int64_t>(rank * most);
    all[rank].assign(first, first + counts[rank]);
  }
  return all;
}

std::string NameOf(int rank, const spec::RankCoord& coord) {
  return base::Concat("rank ", rank, " (pp ", coord.pipeline, ", dp ", coord.data, ", tp ",
                      coord.tensor, ")");
}

}  // namespace

void WriteTrace(const spec::RankTimeline& timeline, const spec::RankCoord& coord,
                Communicator& world, const std::string& path) {
  const auto coords = GatherAll(std::vector<spec::RankCoord>{coord}, world);
  auto actions = GatherAll(timeline.actions, world);
  auto phases = GatherAll(timeline.phases, world);
  auto memory = GatherAll(timeline.memory, world);
  if (world.rank() != 0) return;
  std::vector<spec::TraceProcess> processes;
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto index = static_cast<size_t>(rank);
    const spec::RankCoord& of_rank = coords[index].front();
    processes.push_back({.name = NameOf(rank, of_rank),
                         .is_predicted = false,
                         .rank = rank,
                         .pipeline_stage = of_rank.pipeline,
                         .timeline = {.actions = std::move(actions[index]),
                                      .phases = std::move(phases[index]),
                                      .memory = std::move(memory[index])}});
  }
  spec::WriteFileAtomically(path, spec::TraceText(processes));
}

}  // namespace tessera::engine
