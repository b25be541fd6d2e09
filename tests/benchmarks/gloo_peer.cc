// The operations of comm_benchmark.cc by Gloo's own algorithms, called directly: gloo_peer RANKS.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <cstring>
#include <memory>

#include "tests/benchmarks/comm_timing.h"

namespace {

class GlooLink final : public TimedLink {
 public:
  GlooLink(int rank, int size, const std::string& folder) {
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    gloo::rendezvous::FileStore store(folder);
    auto device = gloo::transport::tcp::CreateDevice({"127.0.0.1"});
    context->connectFullMesh(store, device);
    context_ = context;
  }
  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  void Barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void AllReduce(const float* input, float* output, int64_t count) override {
    gloo::AllreduceOptions options(context_);
    options.setInput(const_cast<float*>(input), static_cast<size_t>(count));
    options.setOutput(output, static_cast<size_t>(count));
    options.setReduceFunction(
        [](void* c, const void* a, const void* b, size_t n) { gloo::sum<float>(c, a, b, n); });
    gloo::allreduce(options);
  }
  // Its one algorithm works in place, on buffers that it is told beforehand.
  void ReduceScatter(float* input, float* output, int64_t count) override {
    if (scatter_ == nullptr || scattered_ != input || scattered_count_ != count) {
      scattered_ = input;
      scattered_count_ = count;
      scatter_ = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
          context_, std::vector<float*>{input}, static_cast<int>(count),
          std::vector<int>(static_cast<size_t>(size()), static_cast<int>(count / size())));
    }
    scatter_->run();
    std::memcpy(output, input, static_cast<size_t>(count / size()) * sizeof(float));
  }
  void AllGather(const float* input, float* output, int64_t count) override {
    gloo::AllgatherOptions options(context_);
    options.setInput(const_cast<float*>(input), static_cast<size_t>(count / size()));
    options.setOutput(output, static_cast<size_t>(count));
    gloo::allgather(options);
  }
  void Send(const float* data, int64_t count, int peer) override {
    auto buffer = context_->createUnboundBuffer(const_cast<float*>(data),
                                                static_cast<size_t>(count) * sizeof(float));
    buffer->send(peer, kSlot);
    buffer->waitSend();
  }
  void Receive(float* data, int64_t count, int peer) override {
    auto buffer = context_->createUnboundBuffer(data, static_cast<size_t>(count) * sizeof(float));
    buffer->recv(peer, kSlot);
    buffer->waitRecv();
  }

 private:
  static constexpr uint64_t kSlot = 1 << 20;  // no algorithm's
  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<gloo::ReduceScatterHalvingDoubling<float>> scatter_;
  float* scattered_ = nullptr;
  int64_t scattered_count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gloo_peer RANKS\n");
    return 2;
  }
  const int num_ranks = std::atoi(argv[1]);
  return RunTimedProcesses(num_ranks, [&](int rank, const std::string& folder) {
    GlooLink link(rank, num_ranks, folder);
    TimeAll(link, "gloo");
  });
}
