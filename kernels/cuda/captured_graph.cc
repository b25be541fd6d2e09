#include "kernels/cuda/captured_graph.h"

#include <memory>
#include <type_traits>

#include "kernels/cuda/cuda_error.h"

namespace tessera::kernels::cuda {
namespace {

struct GraphRelease {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
using GraphOwner = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, GraphRelease>;

// The status is of no interest where `work` has failed: it may be what has spoilt the capture.
cudaError_t EndCapture(cudaStream_t stream, GraphOwner& graph) {
  cudaGraph_t captured = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream, &captured);
  graph.reset(captured);
  return status;
}

}  // namespace

CapturedGraph::CapturedGraph(cudaStream_t stream, const std::function<void()>& work) {
  GraphOwner graph;
  CheckCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
  try {
    work();
  } catch (...) {
    EndCapture(stream, graph);
    cudaGetLastError();
    throw;
  }
  CheckCuda(EndCapture(stream, graph), "cudaStreamEndCapture");
  CheckCuda(cudaGraphInstantiate(&executable_, graph.get(), 0), "cudaGraphInstantiate");
}

CapturedGraph::~CapturedGraph() { cudaGraphExecDestroy(executable_); }

void CapturedGraph::Launch(cudaStream_t stream) const {
  CheckCuda(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
}

bool IsCapturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CheckCuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace tessera::kernels::cuda
