// Times collectives and messages between ranks of one host: comm_benchmark LIBRARY RANKS, a line
// for each operation and size. scripts/bench_comm.sh makes a table of several runs. LIBRARY is
//
//   thread      ranks are threads
//   shm, tcp    ranks are processes, over shared memory or Gloo's connections
#include "engine/comm/process_world.h"
#include "engine/comm/thread_world.h"
#include "tests/benchmarks/comm_timing.h"

namespace tessera::engine {
namespace {

using base::DType;
using base::ReduceOp;

class OurLink final : public TimedLink {
 public:
  explicit OurLink(Communicator& world) : world_(world) {}
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  void Barrier() override { world_.Barrier(); }
  void AllReduce(const float* input, float* output, int64_t count) override {
    world_.AllReduce(input, output, count, DType::kFloat32, ReduceOp::kSum);
  }
  void ReduceScatter(float* input, float* output, int64_t count) override {
    world_.ReduceScatter(input, output, count / size(), DType::kFloat32, ReduceOp::kSum);
  }
  void AllGather(const float* input, float* output, int64_t count) override {
    world_.AllGather(input, output, count / size(), DType::kFloat32);
  }
  void Send(const float* data, int64_t count, int peer) override {
    world_.Send(data, count, DType::kFloat32, peer, 0);
  }
  void Receive(float* data, int64_t count, int peer) override {
    world_.Recv(data, count, DType::kFloat32, peer, 0);
  }

 private:
  Communicator& world_;
};

void TimeThreads(int num_ranks) {
  RunThreadRanks(num_ranks, {}, [&](Communicator& world) {
    OurLink link(world);
    TimeAll(link, "thread");
  });
}

void TimeProcess(HostLink link, int rank, int num_ranks, const std::string& folder) {
  const ProcessRank process = {.rank = rank, .num_ranks = num_ranks, .launcher = "a benchmark"};
  const auto world = JoinProcessWorld(process, {.file = folder + "/meeting"}, {.host_link = link});
  OurLink ours(*world);
  TimeAll(ours, std::string(ToString(link)));
}

}  // namespace
}  // namespace tessera::engine

int main(int argc, char** argv) {
  using tessera::engine::HostLink;
  if (argc != 3) {
    std::fprintf(stderr, "usage: comm_benchmark thread|shm|tcp RANKS\n");
    return 2;
  }
  const std::string library = argv[1];
  const int num_ranks = std::atoi(argv[2]);
  if (library == "thread") {
    tessera::engine::TimeThreads(num_ranks);
    return 0;
  }
  const HostLink link = tessera::engine::HostLinkFromString(library);
  return RunTimedProcesses(num_ranks, [&](int rank, const std::string& folder) {
    tessera::engine::TimeProcess(link, rank, num_ranks, folder);
  });
}
