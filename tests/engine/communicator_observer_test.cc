// What communicators report of what they do.
#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

using base::DType;
using base::OpKind;
using base::OpRecord;
using base::ReduceOp;
using testing::RunRanks;

class PairRecorder final : public base::OpObserver {
 public:
  void OnOpBegin(const OpRecord& record) override {
    EXPECT_FALSE(is_open_);
    is_open_ = true;
    records.push_back(record);
  }
  void OnOpEnd(const OpRecord& record) override {
    EXPECT_TRUE(is_open_);
    is_open_ = false;
    EXPECT_EQ(record, records.back());
  }
  std::vector<OpRecord> records;

 private:
  bool is_open_ = false;
};

TEST(CommunicatorObserverTest, EveryOperationIsReportedWithItsShape) {
  RunRanks(2, [](Communicator& world) {
    PairRecorder recorder;
    world.set_observer(&recorder, 3);
    std::vector<float> a(16);
    std::vector<float> b(16);
    const int peer = 1 - world.rank();
    world.AllReduce(a.data(), a.data(), 5, DType::kFloat32, ReduceOp::kMax);
    world.ReduceScatter(a.data(), b.data(), 6, DType::kFloat32, ReduceOp::kSum);
    world.AllGather(a.data(), b.data(), 7, DType::kFloat32);
    world.Broadcast(a.data(), 9, DType::kFloat32, 1);
    world.AllToAll(a.data(), b.data(), 4, DType::kFloat32);
    const std::vector<int64_t> to =
        world.rank() == 0 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{3, 4};
    const std::vector<int64_t> from =
        world.rank() == 0 ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{2, 4};
    world.AllToAllV(a.data(), to, b.data(), from, DType::kFloat32, 2);
    world.Barrier();
    world.Send(a.data(), 3, DType::kFloat32, peer, 0);
    world.Recv(b.data(), 3, DType::kFloat32, peer, 0);
    const auto handle =
        world.AllReduceAsync(a.data(), a.data(), 8, DType::kFloat32, ReduceOp::kSum);
    world.set_observer(nullptr, 3);
    handle->Wait();
    // Dimensions as the op list writes them: elements, group size, axis; operation, or bytes of an
    // element.
    const std::vector<OpRecord> expected = {
        {OpKind::kAllReduce, {5, 2, 3, 1}},
        {OpKind::kReduceScatter, {12, 2, 3}},
        {OpKind::kAllGather, {14, 2, 3}},
        {OpKind::kBroadcast, {9, 2, 3}},
        {OpKind::kAllToAll, {8, 2, 3}},
        {OpKind::kAllToAll, {world.rank() == 0 ? 3 : 7, 2, 3, 2}},
        {OpKind::kBarrier, {2, 3}},
        {OpKind::kSend, {3, 2, 3, 4}},
        {OpKind::kRecv, {3, 2, 3, 4}},
        {OpKind::kAllReduce, {8, 2, 3, 0}},
    };
    EXPECT_EQ(recorder.records, expected);
  });
}

TEST(CommunicatorObserverTest, ACollectiveOfOneRankCopiesAndIsNotReported) {
  RunRanks(1, [](Communicator& world) {
    PairRecorder recorder;
    world.set_observer(&recorder, 0);
    const std::vector<float> input = {1, 2, 3};
    std::vector<float> output(3);
    world.AllReduce(input.data(), output.data(), 3, DType::kFloat32, ReduceOp::kSum);
    EXPECT_EQ(output, input);
    output.assign(3, 0);
    world.AllGatherAsync(input.data(), output.data(), 3, DType::kFloat32)->Wait();
    EXPECT_EQ(output, input);
    world.Barrier();
    EXPECT_TRUE(recorder.records.empty());
  });
}

}  // namespace
}  // namespace tessera::engine
