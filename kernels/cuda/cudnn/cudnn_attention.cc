// Attention by cuDNN's fused scaled-dot-product attention, through its C++ frontend.
//
// The backward pass adds up dq in whichever order its blocks finish, so its last bits differ
// between runs; on Hopper the fixed order would need memory for all scores.
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cost_model/base/error.h"
#include "kernels/cuda/attention_library.h"

// The frontend asks for each function of cuDNN, of the runtime and of the driver by name, so that
// nothing is linked to them: a program starts where they are missing. This is the library that it
// asks; set once, before its first call.
void* cudnn_frontend::cudnn_dlhandle = nullptr;

namespace tessera::kernels::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// The frontend's tensors are called by numbers from 1 on.
int64_t IdOf(AttentionTensor tensor) { return tensor + 1; }

fe::DataType_t TypeOf(base::DType dtype) {
  return dtype == base::DType::kFloat16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16;
}

// No memory for a kernel is no reason to go on without it: the next step may have some, and would
// then round otherwise.
bool IsOutOfMemory(const std::string& message) {
  return message.find("ALLOC") != std::string::npos;  // CUDNN_STATUS_..._ALLOCATION_FAILED
}

// Throws base::SystemError for a status that says more than that the library has no kernel for a
// graph.
void ThrowUnlessUnsupported(fe::error_t status, const char* call) {
  const std::string message = status.get_message();
  bool is_unsupported = false;
  switch (status.get_code()) {
    case fe::error_code_t::GRAPH_NOT_SUPPORTED:
    case fe::error_code_t::HEURISTIC_QUERY_FAILED:
    case fe::error_code_t::GRAPH_EXECUTION_PLAN_CREATION_FAILED:
      is_unsupported = !IsOutOfMemory(message);
      break;
    case fe::error_code_t::CUDNN_BACKEND_API_FAILED:
      is_unsupported = message.find("NOT_SUPPORTED") != std::string::npos;
      break;
    default:
      break;
  }
  if (is_unsupported) return;
  throw base::SystemError(base::Concat("cuDNN attention: ", call, ": ", message));
}

// Describes a tensor of heads as our buffers hold them: [batch, num_heads, sequence, head_dim],
// rows of all heads `row_stride` apart.
template <typename Attributes>
void DescribeRows(Attributes& tensor, const AttentionShape& shape, AttentionTensor name,
                  int64_t num_heads, int64_t row_stride) {
  tensor.set_uid(IdOf(name))
      .set_dim({shape.batch, num_heads, shape.sequence, shape.head_dim})
      .set_stride({shape.sequence * row_stride, shape.head_dim, row_stride, 1});
}

template <typename Attributes>
void DescribeStats(Attributes& tensor, const AttentionShape& shape) {
  tensor.set_uid(IdOf(kStats))
      .set_data_type(fe::DataType_t::FLOAT)
      .set_dim({shape.batch, shape.num_heads, shape.sequence, 1})
      .set_stride({shape.stats_stride, shape.sequence, 1, 1});
}

Tensor AddRows(fe::graph::Graph& graph, const AttentionShape& shape, AttentionTensor name,
               int64_t num_heads, int64_t row_stride) {
  fe::graph::Tensor_attributes tensor;
  DescribeRows(tensor, shape, name, num_heads, row_stride);
  return graph.tensor(tensor);
}

// A query sees the keys up to its own position.
template <typename Attributes>
Attributes Causal(const AttentionShape& shape) {
  Attributes attributes;
  attributes.set_name(shape.is_backward ? "attention_backward" : "attention");
  attributes.set_attn_scale(shape.scale);
  attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT);
  attributes.set_diagonal_band_right_bound(0);
  return attributes;
}

void AddForward(fe::graph::Graph& graph, const AttentionShape& shape) {
  const Tensor q = AddRows(graph, shape, kQ, shape.num_heads, shape.qkv_stride);
  const Tensor k = AddRows(graph, shape, kK, shape.num_kv_heads, shape.qkv_stride);
  const Tensor v = AddRows(graph, shape, kV, shape.num_kv_heads, shape.qkv_stride);
  auto attributes = Causal<fe::graph::SDPA_attributes>(shape);
  attributes.set_generate_stats(true);
  const auto [out, stats] = graph.sdpa(q, k, v, attributes);
  out->set_output(true);
  DescribeRows(*out, shape, kOut, shape.num_heads, shape.out_stride);
  stats->set_output(true);
  DescribeStats(*stats, shape);
}

void AddBackward(fe::graph::Graph& graph, const AttentionShape& shape) {
  const Tensor q = AddRows(graph, shape, kQ, shape.num_heads, shape.qkv_stride);
  const Tensor k = AddRows(graph, shape, kK, shape.num_kv_heads, shape.qkv_stride);
  const Tensor v = AddRows(graph, shape, kV, shape.num_kv_heads, shape.qkv_stride);
  const Tensor out = AddRows(graph, shape, kOut, shape.num_heads, shape.out_stride);
  const Tensor dout = AddRows(graph, shape, kDout, shape.num_heads, shape.out_stride);
  fe::graph::Tensor_attributes stats;
  DescribeStats(stats, shape);
  auto attributes = Causal<fe::graph::SDPA_backward_attributes>(shape);
  attributes.set_deterministic_algorithm(shape.is_deterministic);
  const auto [dq, dk, dv] =
      graph.sdpa_backward(q, k, v, out, dout, graph.tensor(stats), attributes);
  for (const Tensor& gradient : {dq, dk, dv}) gradient->set_output(true);
  DescribeRows(*dq, shape, kDq, shape.num_heads, shape.dqkv_stride);
  DescribeRows(*dk, shape, kDk, shape.num_kv_heads, shape.dqkv_stride);
  DescribeRows(*dv, shape, kDv, shape.num_kv_heads, shape.dqkv_stride);
}

class CudnnGraph final : public AttentionGraph {
 public:
  CudnnGraph(std::unique_ptr<fe::graph::Graph> graph, int64_t workspace_bytes, cudnnHandle_t handle)
      : graph_(std::move(graph)), workspace_bytes_(workspace_bytes), handle_(handle) {}

  int64_t workspace_bytes() const override { return workspace_bytes_; }

  void Run(const AttentionMemory& memory, void* workspace, cudaStream_t stream) const override {
    const cudnnStatus_t set = fe::detail::set_stream(handle_, stream);
    if (set != CUDNN_STATUS_SUCCESS) {
      throw base::SystemError(base::Concat("cudnnSetStream: ", fe::detail::get_error_string(set)));
    }
    std::unordered_map<int64_t, void*> by_id;
    for (int i = 0; i < kNumAttentionTensors; ++i) {
      if (memory[i] != nullptr) by_id.emplace(IdOf(static_cast<AttentionTensor>(i)), memory[i]);
    }
    auto status = graph_->execute(handle_, by_id, workspace);
    if (status.is_bad()) {
      throw base::SystemError(base::Concat("cuDNN attention: ", status.get_message()));
    }
  }

 private:
  std::unique_ptr<fe::graph::Graph> graph_;
  int64_t workspace_bytes_;
  cudnnHandle_t handle_;
};

class Cudnn final : public AttentionLibrary {
 public:
  explicit Cudnn(cudnnHandle_t handle) : handle_(handle) {}
  ~Cudnn() override { fe::detail::destroy_handle(handle_); }
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  std::string name() const override {
    constexpr size_t kMajor = 10000;
    constexpr size_t kMinor = 100;
    const size_t version = fe::detail::get_backend_version();
    return base::Concat("cuDNN ", version / kMajor, ".", version % kMajor / kMinor, ".",
                        version % kMinor);
  }

  std::unique_ptr<AttentionGraph> Build(const AttentionShape& shape) override {
    auto graph = std::make_unique<fe::graph::Graph>();
    graph->set_io_data_type(TypeOf(shape.dtype))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (shape.is_backward) {
      AddBackward(*graph, shape);
    } else {
      AddForward(*graph, shape);
    }
    int64_t workspace_bytes = 0;
    if (auto status = graph->build(handle_, {fe::HeurMode_t::A}); status.is_bad()) {
      ThrowUnlessUnsupported(status, "build");
      return nullptr;
    }
    if (auto status = graph->get_workspace_size(workspace_bytes); status.is_bad()) {
      throw base::SystemError(
          base::Concat("cuDNN attention: get_workspace_size: ", status.get_message()));
    }
    return std::make_unique<CudnnGraph>(std::move(graph), workspace_bytes, handle_);
  }

 private:
  cudnnHandle_t handle_;
};

// Whether all that the frontend asks for by name is there.
bool LoadLibraries() {
  static const bool is_loaded = [] {
    // With runtimes of several versions about, the frontend would take the oldest.
    const std::string runtime = "libcudart.so." + std::to_string(CUDART_VERSION / 1000);
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", runtime.c_str(), 0);
    for (const char* name : {"libcuda.so.1", runtime.c_str()}) {
      if (dlopen(name, RTLD_NOW) == nullptr) return false;
    }
    fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW);
    return fe::cudnn_dlhandle != nullptr;
  }();
  return is_loaded;
}

}  // namespace

std::unique_ptr<AttentionLibrary> MakeAttentionLibrary() {
  if (!LoadLibraries()) return nullptr;
  cudnnHandle_t handle = nullptr;
  // Without kernels for this GPU or driver there is no handle.
  if (const auto status = fe::detail::create_handle(&handle); status != CUDNN_STATUS_SUCCESS) {
    const std::string message = fe::detail::get_error_string(status);
    if (!IsOutOfMemory(message)) return nullptr;
    throw base::SystemError(base::Concat("cudnnCreate: ", message));
  }
  return std::make_unique<Cudnn>(handle);
}

}  // namespace tessera::kernels::cuda
