#include "engine/train/trace_json.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

constexpr double kMicrosecondsPerSecond = 1e6;

// One rank's actions, fixed in size so that all can be gathered.
struct RankHeader {
  spec::RankCoord coord;
  int64_t num_actions = 0;
};

bool IsPass(spec::ActionKind kind) { return !spec::IsTransfer(kind); }

nlohmann::json EventOf(const spec::TimedAction& timed, int rank) {
  const bool pass = IsPass(timed.action.kind);
  return {
      {"name", spec::ToString(timed.action)},
      {"cat", pass ? "compute" : "transfer"},
      {"ph", "X"},
      {"pid", rank},
      {"tid", pass ? 0 : 1},
      {"ts", timed.start_s * kMicrosecondsPerSecond},
      {"dur", (timed.end_s - timed.start_s) * kMicrosecondsPerSecond},
      {"args",
       {{"virtual_stage", timed.action.virtual_stage}, {"microbatch", timed.action.microbatch}}}};
}

nlohmann::json ProcessName(const RankHeader& header, int rank) {
  const std::string name = base::Concat("rank ", rank, " (pp ", header.coord.pipeline, ", dp ",
                                        header.coord.data, ", tp ", header.coord.tensor, ")");
  return {{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"args", {{"name", name}}}};
}

}  // namespace

void WriteTrace(const std::vector<spec::TimedAction>& timeline, const spec::RankCoord& coord,
                Communicator& world, const std::string& path) {
  const auto size = static_cast<size_t>(world.size());
  const RankHeader mine{.coord = coord, .num_actions = static_cast<int64_t>(timeline.size())};
  std::vector<RankHeader> headers(size);
  world.AllGather(&mine, headers.data(), sizeof(RankHeader), base::DType::kUInt8);
  int64_t most = 0;
  for (const RankHeader& header : headers) most = std::max(most, header.num_actions);
  std::vector<spec::TimedAction> padded = timeline;
  padded.resize(static_cast<size_t>(most));
  std::vector<spec::TimedAction> all(size * padded.size());
  world.AllGather(padded.data(), all.data(),
                  static_cast<int64_t>(padded.size() * sizeof(spec::TimedAction)),
                  base::DType::kUInt8);
  if (world.rank() != 0) return;

  nlohmann::json events = nlohmann::json::array();
  for (size_t rank = 0; rank < size; ++rank) {
    events.push_back(ProcessName(headers[rank], static_cast<int>(rank)));
    for (int64_t i = 0; i < headers[rank].num_actions; ++i) {
      events.push_back(
          EventOf(all[rank * padded.size() + static_cast<size_t>(i)], static_cast<int>(rank)));
    }
  }
  std::ofstream file(path);
  file << nlohmann::json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() << '\n';
  file.close();
  if (!file) {
    throw base::SystemError(
        base::Concat("cannot write the trace to ", path, ": ", std::strerror(errno)));
  }
}

}  // namespace tessera::engine
