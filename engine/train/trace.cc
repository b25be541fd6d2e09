#include "engine/train/trace.h"

#include <utility>

#include "cost_model/base/error.h"
#include "cost_model/spec/file_write.h"
#include "cost_model/spec/trace_json.h"
#include "engine/comm/gather.h"

namespace tessera::engine {
namespace {

std::string NameOf(int rank, const spec::RankCoord& coord) {
  return base::Concat("rank ", rank, " (pp ", coord.pipeline, ", dp ", coord.data, ", tp ",
                      coord.tensor, ")");
}

}  // namespace

void WriteTrace(const spec::RankTimeline& timeline, const spec::RankCoord& coord,
                Communicator& world, const std::string& path) {
  const auto coords = GatherLists(std::vector<spec::RankCoord>{coord}, world);
  auto actions = GatherLists(timeline.actions, world);
  auto phases = GatherLists(timeline.phases, world);
  auto memory = GatherLists(timeline.memory, world);
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
