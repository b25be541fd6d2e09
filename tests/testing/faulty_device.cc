#include "tests/testing/faulty_device.h"

#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"

namespace tessera::testing {
namespace {

using base::DType;
using base::OpKind;
using engine::CommHandle;
using engine::Communicator;

// Where a lost result goes.
class Sink {
 public:
  explicit Sink(int64_t num_bytes) : bytes_(static_cast<size_t>(num_bytes)) {}
  void* data() { return bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
};

class HandleWithSink final : public CommHandle {
 public:
  HandleWithSink(std::unique_ptr<Sink> sink, std::unique_ptr<CommHandle> inner)
      : sink_(std::move(sink)), inner_(std::move(inner)) {}
  void Wait() override { inner_->Wait(); }

 private:
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<CommHandle> inner_;
};

class LossyCommunicator final : public Communicator {
 public:
  LossyCommunicator(Communicator& inner, LosesResult loses)
      : inner_(inner), loses_(std::move(loses)) {}
  LossyCommunicator(std::unique_ptr<Communicator> inner, LosesResult loses)
      : owned_inner_(std::move(inner)), inner_(*owned_inner_), loses_(std::move(loses)) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const std::string& name() const override { return inner_.name(); }
  void GroupStart() override {
    is_grouped_ = true;
    inner_.GroupStart();
  }
  std::unique_ptr<CommHandle> GroupEndAsync() override {
    is_grouped_ = false;
    return inner_.GroupEndAsync();
  }
  std::unique_ptr<Communicator> Split(int color, int key, const std::string& name) override {
    auto split = inner_.Split(color, key, name);
    if (split == nullptr) return nullptr;
    return std::make_unique<LossyCommunicator>(std::move(split), loses_);
  }
  void Abort(const std::string& reason) override { inner_.Abort(reason); }
  double blocked_s() const override { return inner_.blocked_s(); }

 protected:
  std::unique_ptr<CommHandle> DoAllReduce(const void* input, void* output, int64_t count,
                                          DType dtype, base::ReduceOp op) override {
    return Post(OpKind::kAllReduce, output, count * SizeBytes(dtype), [&](void* result) {
      return inner_.AllReduceAsync(input, result, count, dtype, op);
    });
  }
  std::unique_ptr<CommHandle> DoReduceScatter(const void* input, void* output, int64_t count,
                                              DType dtype, base::ReduceOp op) override {
    return Post(OpKind::kReduceScatter, output, count * SizeBytes(dtype), [&](void* result) {
      return inner_.ReduceScatterAsync(input, result, count, dtype, op);
    });
  }
  std::unique_ptr<CommHandle> DoAllGather(const void* input, void* output, int64_t count,
                                          DType dtype) override {
    return Post(OpKind::kAllGather, output, size() * count * SizeBytes(dtype),
                [&](void* result) { return inner_.AllGatherAsync(input, result, count, dtype); });
  }
  void DoBroadcast(void* data, int64_t count, DType dtype, int root) override {
    // What the root sends lies where others receive.
    const bool is_lost = Loses(OpKind::kBroadcast) && rank() != root;
    Sink sink(is_lost ? count * SizeBytes(dtype) : 0);
    inner_.Broadcast(is_lost ? sink.data() : data, count, dtype, root);
  }
  void DoAllToAll(const void* input, void* output, int64_t count, DType dtype) override {
    const bool is_lost = Loses(OpKind::kAllToAll);
    Sink sink(is_lost ? size() * count * SizeBytes(dtype) : 0);
    inner_.AllToAll(input, is_lost ? sink.data() : output, count, dtype);
  }
  void DoAllToAllV(const void* input, std::span<const int64_t> send_counts, void* output,
                   std::span<const int64_t> receive_counts, DType dtype) override {
    inner_.AllToAllV(input, send_counts, output, receive_counts, dtype, 0);
  }
  void DoBarrier() override { inner_.Barrier(); }
  std::unique_ptr<CommHandle> DoSend(const void* data, int64_t count, DType dtype, int peer,
                                     int tag) override {
    if (!is_grouped_) return inner_.SendAsync(data, count, dtype, peer, tag);
    inner_.Send(data, count, dtype, peer, tag);
    return nullptr;
  }
  std::unique_ptr<CommHandle> DoRecv(void* data, int64_t count, DType dtype, int peer,
                                     int tag) override {
    if (is_grouped_) {
      const bool is_lost = Loses(OpKind::kRecv);
      if (is_lost) grouped_sinks_.emplace_back(count * SizeBytes(dtype));
      inner_.Recv(is_lost ? grouped_sinks_.back().data() : data, count, dtype, peer, tag);
      return nullptr;
    }
    return Post(OpKind::kRecv, data, count * SizeBytes(dtype),
                [&](void* result) { return inner_.RecvAsync(result, count, dtype, peer, tag); });
  }

 private:
  bool Loses(OpKind kind) { return loses_({kind, name(), num_calls_[kind]++}); }

  template <typename PostTo>
  std::unique_ptr<CommHandle> Post(OpKind kind, void* output, int64_t num_bytes,
                                   const PostTo& post) {
    if (!Loses(kind)) return post(output);
    auto sink = std::make_unique<Sink>(num_bytes);
    auto inner = post(sink->data());
    return std::make_unique<HandleWithSink>(std::move(sink), std::move(inner));
  }

  std::unique_ptr<Communicator> owned_inner_;
  Communicator& inner_;
  LosesResult loses_;
  bool is_grouped_ = false;
  std::list<Sink> grouped_sinks_;  // for as long as the group may be under way
  std::map<OpKind, int> num_calls_;
};

class LossyDevice final : public engine::RankDevice {
 public:
  LossyDevice(Communicator& host_world, const LosesResult& loses)
      : backend_(kernels::MakeCpuBackend(1)), world_(host_world, loses) {}
  kernels::Backend& backend() override { return *backend_; }
  Communicator& world() override { return world_; }

 private:
  std::unique_ptr<kernels::Backend> backend_;
  LossyCommunicator world_;
};

class SlowBackend final : public kernels::CpuBackend {
 public:
  explicit SlowBackend(double delay_s) : CpuBackend(1), delay_(delay_s) {}

 protected:
  void DoMatMul(const kernels::MatMulArgs& args) override {
    CpuBackend::DoMatMul(args);
    std::this_thread::sleep_for(delay_);
  }

 private:
  std::chrono::duration<double> delay_;
};

class SlowDevice final : public engine::RankDevice {
 public:
  SlowDevice(Communicator& host_world, double delay_s) : backend_(delay_s), world_(host_world) {}
  kernels::Backend& backend() override { return backend_; }
  Communicator& world() override { return world_; }

 private:
  SlowBackend backend_;
  Communicator& world_;
};

}  // namespace

std::unique_ptr<Communicator> MakeLossyCommunicator(Communicator& inner, const LosesResult& loses) {
  return std::make_unique<LossyCommunicator>(inner, loses);
}

std::unique_ptr<engine::RankDevice> MakeLossyDevice(Communicator& host_world,
                                                    const LosesResult& loses) {
  return std::make_unique<LossyDevice>(host_world, loses);
}

std::unique_ptr<engine::RankDevice> MakeSlowDevice(Communicator& host_world, double delay_s) {
  return std::make_unique<SlowDevice>(host_world, delay_s);
}

}  // namespace tessera::testing
