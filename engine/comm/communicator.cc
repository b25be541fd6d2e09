#include "engine/comm/communicator.h"

#include <cstddef>
#include <numeric>

#include "cost_model/base/check.h"
#include "engine/comm/copy_bytes.h"
#include "engine/comm/lone_handle.h"

namespace tessera::engine {
namespace {

using base::DType;
using base::OpKind;
using base::OpRecord;
using base::ReduceOp;

// Reports one operation to the observer, if there is one, for as long as it lives.
class ReportedOp {
 public:
  ReportedOp(base::OpObserver* observer, const OpRecord& record)
      : observer_(observer), record_(record) {
    if (observer_ != nullptr) observer_->OnOpBegin(record_);
  }
  ~ReportedOp() {
    if (observer_ != nullptr) observer_->OnOpEnd(record_);
  }
  ReportedOp(const ReportedOp&) = delete;
  ReportedOp& operator=(const ReportedOp&) = delete;

 private:
  base::OpObserver* observer_;
  OpRecord record_;
};

const std::byte* BlockOf(const void* data, int index, int64_t block_bytes) {
  return static_cast<const std::byte*>(data) + index * block_bytes;
}

// Whether [a, a + a_bytes) and [b, b + b_bytes) share memory.
bool Overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a);
  const auto b_begin = reinterpret_cast<uintptr_t>(b);
  return a_begin < b_begin + static_cast<uintptr_t>(b_bytes) &&
         b_begin < a_begin + static_cast<uintptr_t>(a_bytes);
}

void CheckBuffer(const Communicator& comm, const void* data, int64_t count) {
  TESSERA_CHECK(count >= 0, comm.name(), ": count ", count);
  TESSERA_CHECK(data != nullptr || count == 0, comm.name(), ": null buffer of ", count,
                " elements");
}

void CheckReducible(const Communicator& comm, DType dtype) {
  TESSERA_CHECK(dtype != DType::kUInt16 && dtype != DType::kFloat8 && dtype != DType::kFloat4,
                comm.name(), ": no reduction of ", base::ToString(dtype));
}

void CheckPeer(const Communicator& comm, int peer) {
  TESSERA_CHECK(peer >= 0 && peer < comm.size(), "rank ", peer, " outside ", comm.name(), " of ",
                comm.size());
}

void CheckAllReduce(const Communicator& comm, const void* input, const void* output, int64_t count,
                    DType dtype) {
  CheckBuffer(comm, input, count);
  CheckBuffer(comm, output, count);
  CheckReducible(comm, dtype);
  const int64_t num_bytes = count * SizeBytes(dtype);
  TESSERA_CHECK(input == output || !Overlap(input, num_bytes, output, num_bytes), comm.name(),
                ": input and output overlap");
}

void CheckReduceScatter(const Communicator& comm, const void* input, const void* output,
                        int64_t count, DType dtype) {
  CheckBuffer(comm, input, count);
  CheckBuffer(comm, output, count);
  CheckReducible(comm, dtype);
  const int64_t block_bytes = count * SizeBytes(dtype);
  TESSERA_CHECK(output == BlockOf(input, comm.rank(), block_bytes) ||
                    !Overlap(input, comm.size() * block_bytes, output, block_bytes),
                comm.name(), ": output overlaps input outside the rank's own block");
}

void CheckAllGather(const Communicator& comm, const void* input, const void* output, int64_t count,
                    DType dtype) {
  CheckBuffer(comm, input, count);
  CheckBuffer(comm, output, count);
  const int64_t block_bytes = count * SizeBytes(dtype);
  TESSERA_CHECK(input == BlockOf(output, comm.rank(), block_bytes) ||
                    !Overlap(input, block_bytes, output, comm.size() * block_bytes),
                comm.name(), ": input overlaps output outside the rank's own block");
}

void CheckAllToAllV(const Communicator& comm, const void* input,
                    std::span<const int64_t> send_counts, const void* output,
                    std::span<const int64_t> receive_counts, DType dtype) {
  const auto size = static_cast<size_t>(comm.size());
  TESSERA_CHECK(send_counts.size() == size && receive_counts.size() == size, comm.name(), " of ",
                size, ": ", send_counts.size(), " counts to send, ", receive_counts.size(),
                " to receive");
  const auto sum = [&](std::span<const int64_t> counts) {
    int64_t elements = 0;
    for (const int64_t count : counts) {
      TESSERA_CHECK(count >= 0, comm.name(), ": count ", count);
      elements += count;
    }
    return elements;
  };
  const int64_t num_sent = sum(send_counts);
  const int64_t num_received = sum(receive_counts);
  CheckBuffer(comm, input, num_sent);
  CheckBuffer(comm, output, num_received);
  const int rank = comm.rank();
  TESSERA_CHECK(send_counts[rank] == receive_counts[rank], comm.name(), ": rank ", rank, " sends ",
                send_counts[rank], " elements to itself and receives ", receive_counts[rank]);
  TESSERA_CHECK(
      !Overlap(input, num_sent * SizeBytes(dtype), output, num_received * SizeBytes(dtype)),
      comm.name(), ": input and output of an all-to-all overlap");
}

std::unique_ptr<CommHandle> GoingOn(std::unique_ptr<CommHandle> handle) {
  if (auto* const lone = dynamic_cast<LoneHandle*>(handle.get())) lone->GoOnAlone();
  return handle;
}

// Of the messages that all-to-alls are made of; tags of the callers' own messages are not negative.
constexpr int kAllToAllTag = -1;

OpRecord AllReduceRecord(int64_t count, int size, int axis, ReduceOp op) {
  return {OpKind::kAllReduce, {count, size, axis, static_cast<int64_t>(op)}};
}

}  // namespace

OpRecord Communicator::MessageRecord(OpKind kind, int64_t count, DType dtype) const {
  return {kind, {count, size(), axis_, SizeBytes(dtype)}};
}

void Communicator::AllReduce(const void* input, void* output, int64_t count, DType dtype,
                             ReduceOp op) {
  CheckAllReduce(*this, input, output, count, dtype);
  const ReportedOp reported(CollectiveObserver(), AllReduceRecord(count, size(), axis_, op));
  DoAllReduce(input, output, count, dtype, op)->Wait();
}

void Communicator::ReduceScatter(const void* input, void* output, int64_t count, DType dtype,
                                 ReduceOp op) {
  CheckReduceScatter(*this, input, output, count, dtype);
  const ReportedOp reported(CollectiveObserver(),
                            {OpKind::kReduceScatter, {count * size(), size(), axis_}});
  DoReduceScatter(input, output, count, dtype, op)->Wait();
}

void Communicator::AllGather(const void* input, void* output, int64_t count, DType dtype) {
  CheckAllGather(*this, input, output, count, dtype);
  const ReportedOp reported(CollectiveObserver(),
                            {OpKind::kAllGather, {count * size(), size(), axis_}});
  DoAllGather(input, output, count, dtype)->Wait();
}

void Communicator::Broadcast(void* data, int64_t count, DType dtype, int root) {
  CheckBuffer(*this, data, count);
  CheckPeer(*this, root);
  const ReportedOp reported(CollectiveObserver(), {OpKind::kBroadcast, {count, size(), axis_}});
  DoBroadcast(data, count, dtype, root);
}

void Communicator::AllToAll(const void* input, void* output, int64_t count, DType dtype) {
  CheckBuffer(*this, input, count);
  CheckBuffer(*this, output, count);
  const int64_t num_bytes = count * size() * SizeBytes(dtype);
  TESSERA_CHECK(!Overlap(input, num_bytes, output, num_bytes), name(),
                ": input and output of an all-to-all overlap");
  const ReportedOp reported(CollectiveObserver(),
                            {OpKind::kAllToAll, {count * size(), size(), axis_}});
  DoAllToAll(input, output, count, dtype);
}

void Communicator::AllToAllV(const void* input, std::span<const int64_t> send_counts, void* output,
                             std::span<const int64_t> receive_counts, DType dtype,
                             int64_t token_copies) {
  CheckAllToAllV(*this, input, send_counts, output, receive_counts, dtype);
  const int64_t num_sent = std::accumulate(send_counts.begin(), send_counts.end(), int64_t{0});
  const ReportedOp reported(CollectiveObserver(),
                            {OpKind::kAllToAll, {num_sent, size(), axis_, token_copies}});
  DoAllToAllV(input, send_counts, output, receive_counts, dtype);
}

// As messages in a group: for backends that have nothing better.
void Communicator::DoAllToAllV(const void* input, std::span<const int64_t> send_counts,
                               void* output, std::span<const int64_t> receive_counts, DType dtype) {
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  GroupStart();
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) {
      CopyBytes(from, to, send_counts[peer] * SizeBytes(dtype));
    } else {
      DoSend(from, send_counts[peer], dtype, peer, kAllToAllTag);
      DoRecv(to, receive_counts[peer], dtype, peer, kAllToAllTag);
    }
    from += send_counts[peer] * SizeBytes(dtype);
    to += receive_counts[peer] * SizeBytes(dtype);
  }
  GroupEnd();
}

void Communicator::Barrier() {
  const ReportedOp reported(CollectiveObserver(), {OpKind::kBarrier, {size(), axis_}});
  DoBarrier();
}

std::unique_ptr<CommHandle> Communicator::AllReduceAsync(const void* input, void* output,
                                                         int64_t count, DType dtype, ReduceOp op) {
  CheckAllReduce(*this, input, output, count, dtype);
  const ReportedOp reported(CollectiveObserver(), AllReduceRecord(count, size(), axis_, op));
  return GoingOn(DoAllReduce(input, output, count, dtype, op));
}

std::unique_ptr<CommHandle> Communicator::ReduceScatterAsync(const void* input, void* output,
                                                             int64_t count, DType dtype,
                                                             ReduceOp op) {
  CheckReduceScatter(*this, input, output, count, dtype);
  const ReportedOp reported(CollectiveObserver(),
                            {OpKind::kReduceScatter, {count * size(), size(), axis_}});
  return GoingOn(DoReduceScatter(input, output, count, dtype, op));
}

std::unique_ptr<CommHandle> Communicator::AllGatherAsync(const void* input, void* output,
                                                         int64_t count, DType dtype) {
  CheckAllGather(*this, input, output, count, dtype);
  const ReportedOp reported(CollectiveObserver(),
                            {OpKind::kAllGather, {count * size(), size(), axis_}});
  return GoingOn(DoAllGather(input, output, count, dtype));
}

void Communicator::Send(const void* data, int64_t count, DType dtype, int peer, int tag) {
  CheckBuffer(*this, data, count);
  CheckPeer(*this, peer);
  const ReportedOp reported(observer_, MessageRecord(OpKind::kSend, count, dtype));
  if (const auto handle = DoSend(data, count, dtype, peer, tag)) handle->Wait();
}

void Communicator::Recv(void* data, int64_t count, DType dtype, int peer, int tag) {
  CheckBuffer(*this, data, count);
  CheckPeer(*this, peer);
  const ReportedOp reported(observer_, MessageRecord(OpKind::kRecv, count, dtype));
  if (const auto handle = DoRecv(data, count, dtype, peer, tag)) handle->Wait();
}

std::unique_ptr<CommHandle> Communicator::SendAsync(const void* data, int64_t count, DType dtype,
                                                    int peer, int tag) {
  CheckBuffer(*this, data, count);
  CheckPeer(*this, peer);
  const ReportedOp reported(observer_, MessageRecord(OpKind::kSend, count, dtype));
  auto handle = DoSend(data, count, dtype, peer, tag);
  TESSERA_CHECK(handle != nullptr, name(), ": SendAsync inside a group");
  return handle;
}

std::unique_ptr<CommHandle> Communicator::RecvAsync(void* data, int64_t count, DType dtype,
                                                    int peer, int tag) {
  CheckBuffer(*this, data, count);
  CheckPeer(*this, peer);
  const ReportedOp reported(observer_, MessageRecord(OpKind::kRecv, count, dtype));
  auto handle = DoRecv(data, count, dtype, peer, tag);
  TESSERA_CHECK(handle != nullptr, name(), ": RecvAsync inside a group");
  return handle;
}

}  // namespace tessera::engine
