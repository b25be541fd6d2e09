// The operations of comm_benchmark.cc over MPI, for scripts/bench_comm.sh, which compiles it with
// mpicxx where there is one. Counts fit an int: the largest buffer has 2^24 elements.
#include <mpi.h>

#include "tests/benchmarks/comm_timing.h"

namespace {

class MpiLink final : public TimedLink {
 public:
  MpiLink() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void Barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void AllReduce(const float* input, float* output, int64_t count) override {
    MPI_Allreduce(input, output, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void ReduceScatter(float* input, float* output, int64_t count) override {
    MPI_Reduce_scatter_block(input, output, static_cast<int>(count / size_), MPI_FLOAT, MPI_SUM,
                             MPI_COMM_WORLD);
  }
  void AllGather(const float* input, float* output, int64_t count) override {
    const auto block = static_cast<int>(count / size_);
    MPI_Allgather(input, block, MPI_FLOAT, output, block, MPI_FLOAT, MPI_COMM_WORLD);
  }
  void Send(const float* data, int64_t count, int peer) override {
    MPI_Send(data, static_cast<int>(count), MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
  }
  void Receive(float* data, int64_t count, int peer) override {
    MPI_Recv(data, static_cast<int>(count), MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

 private:
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    MpiLink link;
    TimeAll(link, "mpi");
  }
  MPI_Finalize();
  return 0;
}
