// One process group: the ranks that talk along one axis, in NCCL's shape. Every rank of the group
// calls the same operations in the same order. Reductions add in ascending rank order, whatever
// the algorithm, so reduce-scatter followed by all-gather equals all-reduce bitwise.
//
// A communicator belongs to one rank and is called from that rank's thread alone; its handles must
// not outlive it.
//
// Each wait has a timeout; a peer that fails, leaves or never arrives raises base::CommError naming
// rank, group, operation and peer. Abort makes every pending and later wait of the group's peers
// throw, so that no rank hangs behind one that failed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cost_model/base/dtype.h"
#include "cost_model/base/op.h"

namespace tessera::engine {

// A pending operation. Destroying it without Wait gives the operation up and, unless it could
// already complete, aborts the world: right only while an error unwinds.
class CommHandle {
 public:
  virtual ~CommHandle() = default;
  virtual void Wait() = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  // in this group
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;  // "tp{0,1}": for messages

  // Told of every operation, null for none; a collective of one rank is none. Blocking forms report
  // begin and end around the whole call, asynchronous and grouped ones around their posting. Not
  // owned. `axis` goes into the records.
  void set_observer(base::OpObserver* observer, int axis) {
    observer_ = observer;
    axis_ = axis;
  }

  // In place when `input` == `output`. Counts are elements; a group of one does nothing but copy.
  void AllReduce(const void* input, void* output, int64_t count, base::DType dtype,
                 base::ReduceOp op);
  // Rank r receives block r of the sum: `input` holds size() * count elements, `output` count;
  // output may be block rank() of input.
  void ReduceScatter(const void* input, void* output, int64_t count, base::DType dtype,
                     base::ReduceOp op);
  // `input` holds count elements, `output` size() * count; input may be block rank() of output.
  void AllGather(const void* input, void* output, int64_t count, base::DType dtype);
  void Broadcast(void* data, int64_t count, base::DType dtype, int root);
  // Block r of `input` (count elements) goes to rank r; block r of `output` comes from it.
  void AllToAll(const void* input, void* output, int64_t count, base::DType dtype);
  // The same with blocks of any length, one behind the other: `send_counts` and `receive_counts`
  // [size()] are elements to and from each rank, and what a rank sends to another must be what that
  // one receives from it. `token_copies` goes into the record, see base::OpKind::kAllToAll.
  void AllToAllV(const void* input, std::span<const int64_t> send_counts, void* output,
                 std::span<const int64_t> receive_counts, base::DType dtype, int64_t token_copies);
  void Barrier();

  // Asynchronous forms: buffers must stay alive and untouched until Wait.
  std::unique_ptr<CommHandle> AllReduceAsync(const void* input, void* output, int64_t count,
                                             base::DType dtype, base::ReduceOp op);
  std::unique_ptr<CommHandle> ReduceScatterAsync(const void* input, void* output, int64_t count,
                                                 base::DType dtype, base::ReduceOp op);
  std::unique_ptr<CommHandle> AllGatherAsync(const void* input, void* output, int64_t count,
                                             base::DType dtype);

  // Point to point. Matched by (peer, tag) in order of posting. Between GroupStart and GroupEnd
  // operations are posted together and complete at GroupEnd, or with the handle of GroupEndAsync;
  // outside a group each blocks.
  void Send(const void* data, int64_t count, base::DType dtype, int peer, int tag);
  void Recv(void* data, int64_t count, base::DType dtype, int peer, int tag);
  virtual void GroupStart() = 0;
  void GroupEnd() { GroupEndAsync()->Wait(); }
  // Posts the group; its operations complete at the handle's Wait, in any order among each other.
  virtual std::unique_ptr<CommHandle> GroupEndAsync() = 0;
  // Asynchronous send and receive, outside groups.
  std::unique_ptr<CommHandle> SendAsync(const void* data, int64_t count, base::DType dtype,
                                        int peer, int tag);
  std::unique_ptr<CommHandle> RecvAsync(void* data, int64_t count, base::DType dtype, int peer,
                                        int tag);

  // Collective over this group: ranks of equal color form a group, ordered by key, then rank.
  // A negative color returns null.
  virtual std::unique_ptr<Communicator> Split(int color, int key, const std::string& name) = 0;

  // Makes every rank of the world this group belongs to fail its waits with `reason`.
  virtual void Abort(const std::string& reason) = 0;

  // The step that failures and records name from now on; of one rank, for all its groups.
  virtual void BeginStep(int64_t /*step*/) {}

  // Seconds that the host has spent inside blocking calls and waits of this group.
  virtual double blocked_s() const { return 0; }

 protected:
  virtual std::unique_ptr<CommHandle> DoAllReduce(const void* input, void* output, int64_t count,
                                                  base::DType dtype, base::ReduceOp op) = 0;
  virtual std::unique_ptr<CommHandle> DoReduceScatter(const void* input, void* output,
                                                      int64_t count, base::DType dtype,
                                                      base::ReduceOp op) = 0;
  virtual std::unique_ptr<CommHandle> DoAllGather(const void* input, void* output, int64_t count,
                                                  base::DType dtype) = 0;
  virtual void DoBroadcast(void* data, int64_t count, base::DType dtype, int root) = 0;
  virtual void DoAllToAll(const void* input, void* output, int64_t count, base::DType dtype) = 0;
  virtual void DoAllToAllV(const void* input, std::span<const int64_t> send_counts, void* output,
                           std::span<const int64_t> receive_counts, base::DType dtype) = 0;
  virtual void DoBarrier() = 0;
  // Null between GroupStart and GroupEnd: the operation then completes with the group.
  virtual std::unique_ptr<CommHandle> DoSend(const void* data, int64_t count, base::DType dtype,
                                             int peer, int tag) = 0;
  virtual std::unique_ptr<CommHandle> DoRecv(void* data, int64_t count, base::DType dtype, int peer,
                                             int tag) = 0;

 private:
  // A collective of one rank moves nothing and is not reported: the op list has none either.
  base::OpObserver* CollectiveObserver() const { return size() > 1 ? observer_ : nullptr; }
  base::OpRecord MessageRecord(base::OpKind kind, int64_t count, base::DType dtype) const;

  base::OpObserver* observer_ = nullptr;
  int axis_ = 0;
};

}  // namespace tessera::engine
