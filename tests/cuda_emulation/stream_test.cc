// Streams and events in both orders, and what each order finds.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_emulation/emulation_testing.h"
#include "tests/cuda_emulation/runtime/stream_queue.h"
#include "tests/cuda_emulation/scopes.h"

namespace tessera::cuda_emulation {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct OrderCase {
  StreamOrder order;
  uint64_t seed;
};
const OrderCase kAllStreamOrders[] = {{StreamOrder::kEager, 0},
                                      {StreamOrder::kAdversarial, 0},
                                      {StreamOrder::kAdversarial, 1},
                                      {StreamOrder::kAdversarial, 2},
                                      {StreamOrder::kAdversarial, 3}};

__global__ void Fill(int* to, int value, int n) {
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
    to[i] = value;
}
__global__ void AddTo(int* to, const int* from, int n) {
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    to[i] += from[i];
  }
}

// One stream writes, the other reads it; then the first overwrites. Returns what the second read.
int Exchange(bool with_first_event, bool with_second_event) {
  const TestStream compute;
  const TestStream communication;
  const TestEvent written;
  const TestEvent was_read;
  const DeviceArray<int> buffer(std::vector<int>(8, 0));
  const DeviceArray<int> sum(std::vector<int>(8, 0));
  Expect(Launch(compute, Fill, 1, 32, 0, buffer.data(), 5, 8));
  Expect(cudaEventRecord(written, compute));
  if (with_first_event) Expect(cudaStreamWaitEvent(communication, written));
  Expect(Launch(communication, AddTo, 1, 32, 0, sum.data(), buffer.data(), 8));
  Expect(cudaEventRecord(was_read, communication));
  if (with_second_event) Expect(cudaStreamWaitEvent(compute, was_read));
  Expect(Launch(compute, Fill, 1, 32, 0, buffer.data(), 9, 8));
  Expect(cudaStreamSynchronize(compute));
  Expect(cudaStreamSynchronize(communication));
  return sum.Get()[0];
}

TEST(StreamTest, EventsOrderStreamsInEveryOrder) {
  for (const OrderCase& order : kAllStreamOrders) {
    const Scope scoped = WithStreamOrder(order.order, order.seed);
    EXPECT_EQ(Exchange(true, true), 5) << order.seed;
  }
}

TEST(StreamTest, TheAdversarialOrdersFindAMissingEventWait) {
  bool found_early_read = false;
  bool found_early_write = false;
  for (const OrderCase& order : kAllStreamOrders) {
    const Scope scoped = WithStreamOrder(order.order, order.seed);
    const int without_first = Exchange(false, true);
    const int without_second = Exchange(true, false);
    if (order.order == StreamOrder::kEager) {
      EXPECT_EQ(without_first, 5);
      EXPECT_EQ(without_second, 5);
    }
    found_early_read |= without_first != 5;
    found_early_write |= without_second != 5;
  }
  EXPECT_TRUE(found_early_read);
  EXPECT_TRUE(found_early_write);
}

TEST(StreamTest, EachKindOfMissingWaitIsFoundByOneSeedAlone) {
  const Scope scoped = WithStreamOrder(StreamOrder::kAdversarial, 0);
  EXPECT_NE(Exchange(false, true), 5);
  EXPECT_NE(Exchange(true, false), 5);
}

TEST(StreamTest, AnAsynchronousCopyReadsPinnedMemoryWhenItRuns) {
  const Scope scoped = WithStreamOrder(StreamOrder::kAdversarial, 0);
  const TestStream stream;
  const DeviceArray<int> device(1);
  int* pinned = nullptr;
  Expect(cudaMallocHost(&pinned, sizeof(int)));
  *pinned = 1;
  Expect(cudaMemcpyAsync(device.data(), pinned, sizeof(int), cudaMemcpyHostToDevice, stream));
  *pinned = 2;  // too early: the copy has not run
  Expect(cudaStreamSynchronize(stream));
  EXPECT_EQ(device.Get()[0], 2);

  *pinned = 3;
  Expect(cudaMemcpyAsync(pinned, device.data(), sizeof(int), cudaMemcpyDeviceToHost, stream));
  EXPECT_EQ(*pinned, 3);
  Expect(cudaStreamSynchronize(stream));
  EXPECT_EQ(*pinned, 2);
  Expect(cudaFreeHost(pinned));
}

TEST(StreamTest, PageableMemoryIsReadAtTheCallAndWrittenBeforeItReturns) {
  const Scope scoped = WithStreamOrder(StreamOrder::kAdversarial, 0);
  const TestStream stream;
  const DeviceArray<int> device(1);
  int host = 1;
  Expect(cudaMemcpyAsync(device.data(), &host, sizeof(int), cudaMemcpyHostToDevice, stream));
  host = 2;
  int back = 0;
  Expect(cudaMemcpyAsync(&back, device.data(), sizeof(int), cudaMemcpyDeviceToHost, stream));
  EXPECT_EQ(back, 1);
}

TEST(StreamTest, QueriesTellWhetherWorkIsLeftAndLetItGoOn) {
  const Scope scoped = WithStreamOrder(StreamOrder::kAdversarial, 0);
  const TestStream stream;
  const TestEvent event;
  const DeviceArray<int> array(8);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);  // never recorded
  Expect(Launch(stream, Fill, 1, 32, 0, array.data(), 1, 8));
  Expect(cudaEventRecord(event, stream));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  int num_queries = 0;
  while (cudaEventQuery(event) == cudaErrorNotReady && num_queries < 100) ++num_queries;
  EXPECT_LT(num_queries, 100);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
}

TEST(StreamTest, ElapsedTimeIsThatBetweenTheEvents) {
  const TestStream stream;
  const TestEvent start;
  const TestEvent end;
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorInvalidResourceHandle);
  Expect(cudaEventRecord(start, stream));
  Expect(cudaLaunchHostFunc(
      stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(3)); }, nullptr));
  Expect(cudaEventRecord(end, stream));
  Expect(cudaEventSynchronize(end));
  Expect(cudaEventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 3.0f);
  cudaGetLastError();
}

TEST(StreamTest, TheDefaultStreamWaitsForBlockingStreamsOnly) {
  const Scope scoped = WithStreamOrder(StreamOrder::kAdversarial, 0);
  cudaStream_t blocking = nullptr;
  Expect(cudaStreamCreateWithFlags(&blocking, cudaStreamDefault));
  const DeviceArray<int> array(std::vector<int>(1, 0));
  Expect(Launch(blocking, Fill, 1, 32, 0, array.data(), 7, 1));
  EXPECT_EQ(array.Get()[0], 7);
  Expect(cudaStreamDestroy(blocking));

  const TestStream independent;
  Expect(Launch(independent, Fill, 1, 32, 0, array.data(), 8, 1));
  EXPECT_EQ(array.Get()[0], 7);
  Expect(cudaStreamSynchronize(independent));
  EXPECT_EQ(array.Get()[0], 8);
}

// Waits for a flag that another thread sets.
class WaitForFlag final : public StreamOperation {
 public:
  explicit WaitForFlag(std::shared_ptr<std::atomic<bool>> flag) : flag_(std::move(flag)) {}
  bool TryRun() override { return *flag_; }
  std::string Describe() const override { return "an operation that waits for a flag"; }

 private:
  std::shared_ptr<std::atomic<bool>> flag_;
};

TEST(StreamTest, AWaitingThreadGoesOnWhenAnotherMakesItsWorkReady) {
  for (const OrderCase& order : kAllStreamOrders) {
    const Scope scoped = WithStreamOrder(order.order, order.seed);
    auto flag = std::make_shared<std::atomic<bool>>(false);
    const TestStream stream;
    const DeviceArray<int> array(std::vector<int>(1, 0));
    Expect(Enqueue(stream, std::make_unique<WaitForFlag>(flag)));
    Expect(Launch(stream, Fill, 1, 32, 0, array.data(), 4, 1));
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    std::thread other([&] {
      *flag = true;
      NotifyProgress();
    });
    Expect(cudaStreamSynchronize(stream));
    other.join();
    EXPECT_EQ(array.Get()[0], 4);
  }
}

// Sets the flag that the operation above waits for.
class SetFlag final : public StreamOperation {
 public:
  explicit SetFlag(std::shared_ptr<std::atomic<bool>> flag) : flag_(std::move(flag)) {}
  bool TryRun() override {
    *flag_ = true;
    NotifyProgress();
    return true;
  }
  std::string Describe() const override { return "an operation that sets a flag"; }

 private:
  std::shared_ptr<std::atomic<bool>> flag_;
};

TEST(StreamTest, ADeviceGoesOnWhileItsHostThreadIsElsewhere) {
  const Scope scoped = WithStreamOrder(StreamOrder::kAdversarial, 0);
  auto flag = std::make_shared<std::atomic<bool>>(false);
  const TestStream stream;
  Expect(Enqueue(stream, std::make_unique<WaitForFlag>(flag)));
  std::atomic<bool> is_issued = false;
  std::atomic<bool> may_leave = false;
  std::thread other([&] {
    const TestStream others;
    Expect(Enqueue(others, std::make_unique<SetFlag>(flag)));
    is_issued = true;
    while (!may_leave) std::this_thread::yield();  // at a barrier of the host, say
  });
  while (!is_issued) std::this_thread::yield();
  Expect(cudaStreamSynchronize(stream));
  may_leave = true;
  other.join();
}

TEST(StreamTest, AWaitForWhatNeverComesNamesTheHeadOfTheStream) {
  const Scope patience = WithWaitTimeout(0.05);
  {
    const TestStream stream;
    const TestStream other;
    const TestEvent event;
    Expect(
        Enqueue(stream, std::make_unique<WaitForFlag>(std::make_shared<std::atomic<bool>>(false))));
    Expect(cudaEventRecord(event, stream));
    Expect(cudaStreamWaitEvent(other, event));
    std::string message;
    try {
      cudaStreamSynchronize(other);
    } catch (const Fault& fault) {
      message = fault.what();
    }
    EXPECT_THAT(message, AllOf(HasSubstr("cudaStreamSynchronize: nothing moves"),
                               HasSubstr("an operation that waits for a flag, 1 more behind it"),
                               HasSubstr("cudaStreamWaitEvent")));
  }
  ResetDevices();
  cudaGetLastError();
}

}  // namespace
}  // namespace tessera::cuda_emulation
