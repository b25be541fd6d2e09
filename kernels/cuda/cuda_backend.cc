#include "kernels/cuda/cuda_backend.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/grouped_matmul.h"

namespace tessera::kernels::cuda {
namespace {

// Tokens and labels of several micro-batches; weights of a checkpoint pass through in pieces, and
// so do the messages of a communicator of the host.
constexpr size_t kRingBytes = size_t{16} << 20;
constexpr int64_t kWorkspaceAlignment = 256;
// What NVIDIA recommends: 32 MiB from Hopper on, 4 MiB before, where split sums can use more.
constexpr int64_t kCublasBytesHopper = int64_t{32} << 20;
constexpr int64_t kCublasBytesAmpere = int64_t{8} << 20;
constexpr int kHopperMajor = 9;

int UseDeviceAndReturn(int device) {
  UseDevice(device);
  return device;
}

int DeviceAttribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  CheckCuda(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace

CudaBackend::CudaBackend(const CudaBackendOptions& options)
    : device_(UseDeviceAndReturn(options.device)),
      matmul_(options.allow_tf32),
      ring_(kRingBytes),
      fused_attention_(MakeAttentionLibrary(), options.deterministic) {
  context_.stream = stream_.get();
  context_.num_multiprocessors = DeviceAttribute(cudaDevAttrMultiProcessorCount, device_);
  const int major = DeviceAttribute(cudaDevAttrComputeCapabilityMajor, device_);
  wanted_cublas_bytes_ = major >= kHopperMajor ? kCublasBytesHopper : kCublasBytesAmpere;
}

// Nothing of ours may go while the stream still uses it; what it ran no longer matters.
CudaBackend::~CudaBackend() { cudaStreamSynchronize(stream_.get()); }

void* CudaBackend::Allocate(size_t bytes) {
  void* memory = nullptr;
  CheckCuda(cudaMalloc(&memory, std::max<size_t>(bytes, 1)),
            base::Concat("cudaMalloc of ", bytes, " bytes on device ", device_).c_str());
  return memory;
}

// Called while errors unwind: a failure of the device has been told by then.
void CudaBackend::Free(void* memory, size_t) { cudaFree(memory); }

void CudaBackend::AttachWorkspace(void* memory, int64_t num_bytes) {
  TESSERA_CHECK(memory != nullptr && reinterpret_cast<uintptr_t>(memory) % kWorkspaceAlignment == 0,
                "a workspace that is not aligned to ", kWorkspaceAlignment, " bytes");
  TESSERA_CHECK(num_bytes >= kLeastScratchBytes, "a workspace of ", num_bytes, " bytes, less than ",
                kLeastScratchBytes);
  const int64_t cublas_bytes = std::min(wanted_cublas_bytes_, num_bytes - kLeastScratchBytes) /
                               kWorkspaceAlignment * kWorkspaceAlignment;
  matmul_.set_workspace({memory, cublas_bytes});
  context_.scratch = static_cast<std::byte*>(memory) + cublas_bytes;
  context_.scratch_bytes = num_bytes - cublas_bytes;
  attention_context_ = context_;
  attention_context_.scratch = memory;
  attention_context_.scratch_bytes = num_bytes;
}

void* CudaBackend::AllocatePinned(size_t bytes) {
  void* memory = nullptr;
  CheckCuda(cudaMallocHost(&memory, std::max<size_t>(bytes, 1)),
            base::Concat("cudaMallocHost of ", bytes, " bytes").c_str());
  return memory;
}

void CudaBackend::FreePinned(void* memory, size_t) { cudaFreeHost(memory); }

void CudaBackend::CopyFromPinned(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return;
  CheckCuda(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_.get()),
            "cudaMemcpyAsync to the device");
}

std::unique_ptr<OpGraph> CudaBackend::Capture(const std::function<void()>& work) {
  RefuseInCapture("a capture");
  struct Capturing {
    explicit Capturing(CudaBackend& of) : backend(of) { backend.is_capturing_ = true; }
    ~Capturing() {
      backend.is_capturing_ = false;
      backend.num_marks_ = first_mark;
    }
    CudaBackend& backend;
    const size_t first_mark = backend.num_marks_;
  } const capturing(*this);
  auto graph = std::make_unique<CapturedGraph>(stream_.get(), work);
  graph->first_mark = capturing.first_mark;
  graph->end_mark = num_marks_;
  return graph;
}

void CudaBackend::Launch(const OpGraph& graph) {
  const auto& captured = static_cast<const CapturedGraph&>(graph);
  TESSERA_CHECK(num_marks_ == captured.first_mark, "a graph captured behind ", captured.first_mark,
                " marks, launched behind ", num_marks_);
  CheckFailure();
  captured.Launch(stream_.get());
  num_marks_ = captured.end_mark;
  if (launch_hook_) launch_hook_();
}

void CudaBackend::RefuseInCapture(const char* call) const {
  TESSERA_CHECK(!is_capturing_, call, " while operations are captured");
}

void CudaBackend::CopyToDevice(void* device, const void* host, size_t bytes) {
  RefuseInCapture("a copy to the device");
  ring_.CopyToDevice(device, host, bytes, stream_.get());
}

void CudaBackend::CopyToHost(void* host, const void* device, size_t bytes) {
  RefuseInCapture("a copy to the host");
  if (bytes == 0) return Synchronize();
  CheckFailure();
  try {
    ring_.CopyToHost(host, device, bytes, stream_.get());
  } catch (...) {
    CheckFailure();  // see Synchronize
    throw;
  }
  CheckFailure();
}

void CudaBackend::Synchronize() {
  RefuseInCapture("a wait");
  CheckFailure();
  const cudaError_t status = cudaStreamSynchronize(stream_.get());
  CheckFailure();  // a failed collective tells more than the error that it may have left behind
  CheckCuda(status, "cudaStreamSynchronize");
}

size_t CudaBackend::Mark() {
  if (num_marks_ == marks_.size()) marks_.push_back(std::make_unique<Event>(EventTiming::kOn));
  if (is_capturing_) {
    marks_[num_marks_]->RecordAtEachLaunch(stream_.get());
  } else {
    marks_[num_marks_]->Record(stream_.get());
  }
  return num_marks_++;
}

std::vector<double> CudaBackend::TakeMarks() {
  Synchronize();
  std::vector<double> times_s(num_marks_);
  for (size_t i = 1; i < num_marks_; ++i) times_s[i] = marks_[i]->SecondsSince(*marks_[0]);
  num_marks_ = 0;
  return times_s;
}

void CudaBackend::CheckFailure() const {
  if (failure_check_) failure_check_();
}

const LaunchContext& CudaBackend::Context() const {
  TESSERA_CHECK(context_.scratch != nullptr, "an operation before AttachWorkspace");
  return context_;
}

void CudaBackend::DoMatMul(const MatMulArgs& args) {
  const LaunchContext& context = Context();
  if (!matmul_.Run(args, context.stream)) MatMulEpilogue(context, args);
}

void CudaBackend::DoGroupedMatMul(const GroupedMatMulArgs& args) {
  for (const MatMulArgs& product : ProductsOf(args)) DoMatMul(product);
}

void CudaBackend::DoGroupedBiasGrad(const GroupedBiasGradArgs& args) {
  for (const BiasGradArgs& sum : SumsOf(args)) DoBiasGrad(sum);
}

void CudaBackend::DoLayerNormForward(const NormForwardArgs& args) {
  cuda::LayerNormForward(Context(), args);
}
void CudaBackend::DoLayerNormBackward(const NormBackwardArgs& args) {
  cuda::LayerNormBackward(Context(), args);
}
void CudaBackend::DoRmsNormForward(const NormForwardArgs& args) {
  cuda::RmsNormForward(Context(), args);
}
void CudaBackend::DoRmsNormBackward(const NormBackwardArgs& args) {
  cuda::RmsNormBackward(Context(), args);
}
void CudaBackend::DoResidualAdd(const ResidualAddArgs& args) { cuda::ResidualAdd(Context(), args); }
void CudaBackend::DoBiasGrad(const BiasGradArgs& args) { cuda::BiasGrad(Context(), args); }
void CudaBackend::DoSwiGluForward(const SwiGluForwardArgs& args) {
  cuda::SwiGluForward(Context(), args);
}
void CudaBackend::DoSwiGluBackward(const SwiGluBackwardArgs& args) {
  cuda::SwiGluBackward(Context(), args);
}
void CudaBackend::DoRope(const RopeArgs& args) { cuda::Rope(Context(), args); }
void CudaBackend::DoAttentionForward(const AttentionForwardArgs& args) {
  const LaunchContext& context = Context();
  if (!fused_attention_.Forward(attention_context_, args)) cuda::AttentionForward(context, args);
}
void CudaBackend::DoAttentionBackward(const AttentionBackwardArgs& args) {
  const LaunchContext& context = Context();
  if (!fused_attention_.Backward(attention_context_, args)) cuda::AttentionBackward(context, args);
}
void CudaBackend::DoEmbeddingForward(const EmbeddingForwardArgs& args) {
  cuda::EmbeddingForward(Context(), args);
}
void CudaBackend::DoEmbeddingBackward(const EmbeddingBackwardArgs& args) {
  cuda::EmbeddingBackward(Context(), args);
}
void CudaBackend::DoPositionForward(const PositionForwardArgs& args) {
  cuda::PositionForward(Context(), args);
}
void CudaBackend::DoPositionBackward(const PositionBackwardArgs& args) {
  cuda::PositionBackward(Context(), args);
}
void CudaBackend::DoCrossEntropyMax(const CrossEntropyMaxArgs& args) {
  cuda::CrossEntropyMax(Context(), args);
}
void CudaBackend::DoCrossEntropySumExp(const CrossEntropySumExpArgs& args) {
  cuda::CrossEntropySumExp(Context(), args);
}
void CudaBackend::DoCrossEntropyGrad(const CrossEntropyGradArgs& args) {
  cuda::CrossEntropyGrad(Context(), args);
}
void CudaBackend::DoSumOfSquares(const SumOfSquaresArgs& args) {
  cuda::SumOfSquares(Context(), args);
}
void CudaBackend::DoAdamW(const AdamWArgs& args) { cuda::AdamW(Context(), args); }
void CudaBackend::DoCopyRows(const CopyRowsArgs& args) { cuda::CopyRows(Context(), args); }
void CudaBackend::DoDropout(const DropoutArgs& args) { cuda::Dropout(Context(), args); }
void CudaBackend::DoRouterForward(const RouterForwardArgs& args) {
  cuda::RouterForward(Context(), args);
}
void CudaBackend::DoExpertCount(const ExpertCountArgs& args) { cuda::ExpertCount(Context(), args); }
void CudaBackend::DoRouterBackward(const RouterBackwardArgs& args) {
  cuda::RouterBackward(Context(), args);
}
void CudaBackend::DoWeightedGeluForward(const WeightedGeluForwardArgs& args) {
  cuda::WeightedGeluForward(Context(), args);
}
void CudaBackend::DoWeightedGeluBackward(const WeightedGeluBackwardArgs& args) {
  cuda::WeightedGeluBackward(Context(), args);
}
void CudaBackend::DoTokenPermute(const TokenPermuteArgs& args) {
  cuda::TokenPermute(Context(), args);
}
void CudaBackend::DoTokenUnpermute(const TokenUnpermuteArgs& args) {
  cuda::TokenUnpermute(Context(), args);
}
void CudaBackend::DoLogSumExpMerge(const LogSumExpMergeArgs& args) {
  cuda::LogSumExpMerge(Context(), args);
}
void CudaBackend::DoSumBlocks(const SumBlocksArgs& args) { cuda::SumBlocks(Context(), args); }
void CudaBackend::DoScale(Array x, int64_t n, float factor) {
  cuda::Scale(Context(), x, n, factor);
}
void CudaBackend::DoAdd(ConstArray x, Array y, int64_t n) { cuda::Add(Context(), x, y, n); }
void CudaBackend::DoFill(Array x, int64_t n, float value) { cuda::Fill(Context(), x, n, value); }
void CudaBackend::DoCopy(ConstArray source, Array destination, int64_t n) {
  cuda::Copy(Context(), source, destination, n);
}
void CudaBackend::DoCast(ConstArray source, Array destination, int64_t n) {
  cuda::Cast(Context(), source, destination, n);
}

}  // namespace tessera::kernels::cuda
