// Capture of streams into graphs, and their replay.
#include "tests/cuda_emulation/runtime/graph.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "tests/cuda_emulation/runtime/errors.h"
#include "tests/cuda_emulation/runtime/host_thread.h"
#include "tests/cuda_emulation/runtime/runtime_api.h"
#include "tests/cuda_emulation/runtime/stream.h"

using namespace tessera::cuda_emulation;

struct CUgraph_st {
  std::shared_ptr<const std::vector<GraphNode>> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<GraphNode>> nodes;
};

namespace tessera::cuda_emulation {

void AddNode(cudaStream_t stream, std::unique_ptr<StreamOperation> operation) {
  std::vector<GraphNode>& nodes = stream->capture->nodes;
  nodes.push_back({.operation = std::move(operation), .dependencies = stream->frontier});
  stream->frontier = {static_cast<int>(nodes.size()) - 1};
}

namespace {

// Captures in progress, of all threads.
std::vector<std::shared_ptr<Capture>>& Captures() {
  static auto* captures = new std::vector<std::shared_ptr<Capture>>;
  return *captures;
}

// One launch of a graph: its operations, each after those it depends on. Among those that could run
// the last captured goes first, which breaks graphs that lack a dependency.
class GraphOperation final : public StreamOperation {
 public:
  explicit GraphOperation(std::shared_ptr<const std::vector<GraphNode>> nodes)
      : nodes_(std::move(nodes)), is_done_(nodes_->size(), false) {
    for (const GraphNode& node : *nodes_) operations_.push_back(node.operation->Clone());
  }

  bool TryRun() override {
    while (RunOneNode()) {
    }
    return std::all_of(is_done_.begin(), is_done_.end(), [](bool done) { return done; });
  }

  std::string Describe() const override {
    std::string text = "cudaGraphLaunch of " + std::to_string(nodes_->size()) + " operations";
    for (size_t i = 0; i < is_done_.size(); ++i) {
      if (!is_done_[i] && IsReady(i)) text += ", at " + operations_[i]->Describe();
    }
    return text;
  }

 private:
  bool IsReady(size_t node) const {
    const std::vector<int>& dependencies = (*nodes_)[node].dependencies;
    return std::all_of(dependencies.begin(), dependencies.end(),
                       [this](int before) { return is_done_[before]; });
  }

  bool RunOneNode() {
    for (size_t i = nodes_->size(); i-- > 0;) {
      if (!is_done_[i] && IsReady(i) && operations_[i]->TryRun()) {
        is_done_[i] = true;
        return true;
      }
    }
    return false;
  }

  std::shared_ptr<const std::vector<GraphNode>> nodes_;
  std::vector<std::unique_ptr<StreamOperation>> operations_;
  std::vector<bool> is_done_;
};

// Whether everything that was captured comes before the end of the stream where capture began.
bool IsJoined(const Capture& capture) {
  std::vector<int> pending = capture.streams.front()->frontier;
  std::vector<bool> is_reached(capture.nodes.size(), false);
  while (!pending.empty()) {
    const int node = pending.back();
    pending.pop_back();
    if (is_reached[node]) continue;
    is_reached[node] = true;
    const std::vector<int>& dependencies = capture.nodes[node].dependencies;
    pending.insert(pending.end(), dependencies.begin(), dependencies.end());
  }
  return std::find(is_reached.begin(), is_reached.end(), false) == is_reached.end();
}

void EndCapture(const std::shared_ptr<Capture>& capture) {
  for (cudaStream_t stream : capture->streams) {
    stream->capture = nullptr;
    stream->frontier.clear();
  }
  std::erase(Captures(), capture);
}

}  // namespace

cudaError_t RefuseWhileCapturing(const char* call) {
  bool is_capturing = false;
  WithStreams([&] {
    for (const std::shared_ptr<Capture>& capture : Captures()) {
      const bool concerns_thread = capture->mode == cudaStreamCaptureModeGlobal ||
                                   (capture->mode == cudaStreamCaptureModeThreadLocal &&
                                    capture->thread == CurrentHostThread());
      if (!concerns_thread) continue;
      capture->is_invalid = true;
      is_capturing = true;
    }
  });
  if (!is_capturing) return cudaSuccess;
  return Refuse(cudaErrorStreamCaptureUnsupported,
                std::string(call) + " while a stream is captured");
}

}  // namespace tessera::cuda_emulation

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const cudaError_t error = CheckStream(stream, "cudaStreamBeginCapture");
  if (error != cudaSuccess) return error;
  if (stream->capture != nullptr) {
    return Refuse(cudaErrorInvalidValue, "cudaStreamBeginCapture: the stream is captured already");
  }
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = CurrentHostThread();
  capture->streams.push_back(stream);
  WithStreams([&] {
    stream->capture = capture;
    stream->frontier.clear();
    Captures().push_back(capture);
  });
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const cudaError_t error = CheckStream(stream, "cudaStreamEndCapture");
  if (error != cudaSuccess) return error;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr || capture->streams.front() != stream) {
    return Refuse(cudaErrorStreamCaptureUnmatched, "cudaStreamEndCapture");
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != CurrentHostThread()) {
    return Refuse(cudaErrorStreamCaptureWrongThread, "cudaStreamEndCapture");
  }
  bool is_joined = false;
  WithStreams([&] {
    is_joined = IsJoined(*capture);
    EndCapture(capture);
  });
  if (capture->is_invalid) {
    return Refuse(cudaErrorStreamCaptureInvalidated, "cudaStreamEndCapture: a call in between");
  }
  if (!is_joined) {
    return Refuse(
        cudaErrorStreamCaptureUnjoined,
        "cudaStreamEndCapture: the stream waits for no event after what another captured");
  }
  *graph =
      new CUgraph_st{std::make_shared<const std::vector<GraphNode>>(std::move(capture->nodes))};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const cudaError_t error = CheckStream(stream, "cudaStreamIsCapturing");
  if (error != cudaSuccess) return error;
  if (stream->capture == nullptr) {
    *status = cudaStreamCaptureStatusNone;
  } else {
    *status = stream->capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                          : cudaStreamCaptureStatusActive;
  }
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  if (graph == nullptr) return Refuse(cudaErrorInvalidValue, "cudaGraphInstantiate");
  *executable = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const cudaError_t error = CheckStream(stream, "cudaGraphLaunch");
  if (error != cudaSuccess) return error;
  if (executable == nullptr) return Refuse(cudaErrorInvalidValue, "cudaGraphLaunch");
  return Enqueue(stream, std::make_unique<GraphOperation>(executable->nodes));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
