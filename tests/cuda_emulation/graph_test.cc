// Streams captured into graphs, and their replay.
#include <gmock/gmock.h>

#include <functional>
#include <vector>

#include "tests/cuda_emulation/emulation_testing.h"

namespace tessera::cuda_emulation {
namespace {

__global__ void Add(int* to, int value) { atomicAdd(to, value); }
__global__ void Double(int* to, const int* from) { *to = 2 * *from; }

class Graph {
 public:
  explicit Graph(cudaGraph_t graph) {
    Expect(cudaGraphInstantiate(&executable_, graph));
    Expect(cudaGraphDestroy(graph));
  }
  ~Graph() { cudaGraphExecDestroy(executable_); }
  void Launch(cudaStream_t stream) const { Expect(cudaGraphLaunch(executable_, stream)); }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

cudaGraph_t EndCapture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  Expect(cudaStreamEndCapture(stream, &graph));
  return graph;
}

TEST(GraphTest, CapturedWorkRunsAtEveryLaunchAndNotBefore) {
  const TestStream stream;
  const DeviceArray<int> number(std::vector<int>{1});
  const DeviceArray<int> twice(std::vector<int>{0});
  Expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  Expect(Launch(stream, Add, 1, 1, 0, number.data(), 10));
  Expect(Launch(stream, Double, 1, 1, 0, twice.data(), number.data()));
  Expect(cudaMemsetAsync(number.data(), 0, sizeof(int), stream));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  Expect(cudaStreamIsCapturing(stream, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  const Graph graph(EndCapture(stream));
  Expect(cudaStreamSynchronize(stream));
  EXPECT_EQ(number.Get()[0], 1);
  graph.Launch(stream);
  Expect(cudaStreamSynchronize(stream));
  EXPECT_EQ(twice.Get()[0], 22);
  graph.Launch(stream);
  Expect(cudaStreamSynchronize(stream));
  EXPECT_EQ(twice.Get()[0], 20);
}

// Forks to a second stream and joins it again, unless told to leave a wait out.
cudaError_t CaptureFork(cudaStream_t main, cudaStream_t side, int* number, int* twice,
                        bool with_join, cudaGraph_t* graph) {
  const TestEvent fork;
  const TestEvent join;
  Expect(cudaStreamBeginCapture(main, cudaStreamCaptureModeThreadLocal));
  Expect(Launch(main, Add, 1, 1, 0, number, 10));
  Expect(cudaEventRecord(fork, main));
  Expect(cudaStreamWaitEvent(side, fork));
  Expect(Launch(side, Double, 1, 1, 0, twice, number));
  Expect(cudaEventRecord(join, side));
  if (with_join) Expect(cudaStreamWaitEvent(main, join));
  Expect(cudaMemsetAsync(number, 0, sizeof(int), main));
  return cudaStreamEndCapture(main, graph);
}

TEST(GraphTest, EventsBetweenCapturedStreamsOrderTheReplay) {
  const TestStream main;
  const TestStream side;
  const DeviceArray<int> number(std::vector<int>{1});
  const DeviceArray<int> twice(std::vector<int>{0});
  cudaGraph_t captured = nullptr;
  Expect(CaptureFork(main, side, number.data(), twice.data(), true, &captured));
  const Graph graph(captured);
  graph.Launch(main);
  Expect(cudaStreamSynchronize(main));
  EXPECT_EQ(twice.Get()[0], 22);
  EXPECT_EQ(number.Get()[0], 0);
}

TEST(GraphTest, AForkThatIsNotJoinedIsRefused) {
  const TestStream main;
  const TestStream side;
  const DeviceArray<int> numbers(2);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(CaptureFork(main, side, numbers.data(), numbers.data() + 1, false, &graph),
            cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureUnjoined);
}

TEST(GraphTest, CallsThatWaitOrAllocateEndTheCapture) {
  const TestStream stream;
  const TestEvent event;
  void* memory = nullptr;
  cudaGraph_t graph = nullptr;
  const std::vector<std::function<cudaError_t()>> calls = {
      [&] { return cudaMalloc(&memory, 16); },       [&] { return cudaMallocHost(&memory, 16); },
      [&] { return cudaStreamSynchronize(stream); }, [&] { return cudaStreamQuery(stream); },
      [&] { return cudaEventSynchronize(event); },   [&] { return cudaEventQuery(event); },
      [&] { return cudaDeviceSynchronize(); }};
  for (const auto& call : calls) {
    Expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  }
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnmatched);
  cudaGetLastError();
}

TEST(GraphTest, ExternalRecordsHappenAtEveryLaunch) {
  const TestStream stream;
  const TestEvent before, within, captured;
  const DeviceArray<int> number(std::vector<int>{1});
  EXPECT_EQ(cudaEventRecordWithFlags(within, stream, cudaEventRecordExternal),
            cudaErrorIllegalState);
  Expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  Expect(Launch(stream, Add, 1, 1, 0, number.data(), 10));
  Expect(cudaEventRecordWithFlags(within, stream, cudaEventRecordExternal));
  Expect(cudaEventRecord(captured, stream));
  const Graph graph(EndCapture(stream));
  for (int launch = 0; launch < 2; ++launch) {
    Expect(cudaEventRecord(before, stream));
    graph.Launch(stream);
    Expect(cudaStreamSynchronize(stream));
    float ms = -1;
    Expect(cudaEventElapsedTime(&ms, before, within));
    EXPECT_GE(ms, 0) << "recorded by the launch before";
  }
  EXPECT_EQ(cudaEventQuery(captured), cudaErrorCapturedEvent);
  cudaGetLastError();
}

TEST(GraphTest, PinnedMemoryIsReadAnewAtEveryLaunch) {
  const TestStream stream;
  const DeviceArray<int> number(std::vector<int>{0});
  int* pinned = nullptr;
  Expect(cudaMallocHost(&pinned, sizeof(int)));
  *pinned = 1;
  Expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  Expect(cudaMemcpyAsync(number.data(), pinned, sizeof(int), cudaMemcpyHostToDevice, stream));
  const Graph graph(EndCapture(stream));
  for (const int value : {2, 3}) {
    *pinned = value;
    graph.Launch(stream);
    Expect(cudaStreamSynchronize(stream));
    EXPECT_EQ(number.Get()[0], value);
  }
  Expect(cudaFreeHost(pinned));
}

TEST(GraphTest, ACapturedStreamDoesNotWaitForWorkOutside) {
  const TestStream stream;
  const TestStream outside;
  const TestEvent event;
  Expect(cudaEventRecord(event, outside));
  Expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(cudaStreamWaitEvent(stream, event), cudaErrorStreamCaptureIsolation);
  cudaGraphDestroy(EndCapture(stream));
  cudaGetLastError();
}

TEST(GraphTest, PageableMemoryIsNotCaptured) {
  const TestStream stream;
  const DeviceArray<int> number(std::vector<int>{1});
  int host = 0;
  Expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(cudaMemcpyAsync(number.data(), &host, sizeof(int), cudaMemcpyHostToDevice, stream),
            cudaErrorStreamCaptureUnsupported);
  cudaGraphDestroy(EndCapture(stream));
  cudaGetLastError();
}

}  // namespace
}  // namespace tessera::cuda_emulation
