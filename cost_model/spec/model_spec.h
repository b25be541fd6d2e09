// What the model is: sizes and the choices that make a family (GPT, Llama, Qwen2, Mixtral).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::spec {

enum class NormKind : uint8_t { kLayerNorm, kRmsNorm };
enum class PositionKind : uint8_t { kLearned, kRope, kNone };
enum class ActivationKind : uint8_t { kGelu, kSwiGlu };  // kGelu: tanh approximation

std::string_view ToString(NormKind kind);        // "layernorm", "rmsnorm"
std::string_view ToString(PositionKind kind);    // "learned", "rope", "none"
std::string_view ToString(ActivationKind kind);  // "gelu", "swiglu"

// Llama 3.1's stretching of low rotary frequencies ("rope_type": "llama3").
struct RopeScaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_sequence_length = 8192;
  bool operator==(const RopeScaling&) const = default;
};

// Mixture of experts in place of the MLP, in every layer past the leading dense ones.
struct MoeSpec {
  int num_experts = 0;
  int experts_per_token = 0;  // top-k
  int64_t expert_ffn_hidden_size = 0;
  int64_t shared_expert_ffn_hidden_size = 0;  // of an expert that every token visits; 0: none
  bool shared_expert_gate = false;            // its output is weighted by a sigmoid of the token
  int num_leading_dense_layers = 0;           // they keep an MLP of ffn_hidden_size
  // Tokens that an expert takes at most, as a multiple of the even share; 0: dropless.
  double capacity_factor = 0;
  // Whether the router weights of a token's experts are scaled to the sum of 1 (Mixtral), or are
  // their probabilities among all experts.
  bool normalized_router_weights = true;
  // Of each layer's loss that balances the load, over each sequence by itself, and of the mean
  // square of its routers' log-sum-exp (arXiv:2412.19437, eq. 17-20; 2202.08906, eq. 5); 0: none.
  double auxiliary_loss_coefficient = 0;
  double z_loss_coefficient = 0;
  // For benchmarks and tests: the experts of a token follow from its position, all equally often.
  bool forced_uniform_routing = false;
  bool operator==(const MoeSpec&) const = default;
};

// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): queries, and keys and values, pass
// through a narrow layer each; a query or key head is qk_nope_head_dim + qk_rope_head_dim wide.
struct MlaSpec {
  int64_t q_lora_rank = 0;  // 0: queries straight from the hidden state
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  bool operator==(const MlaSpec&) const = default;
};

// Layers that attend to the last `size` tokens only.
struct SlidingWindowSpec {
  int64_t size = 0;
  int full_attention_interval = 0;  // every so many layers attend to all tokens; 0: none does
  bool operator==(const SlidingWindowSpec&) const = default;
};

struct ModelSpec {
  std::string name;
  NormKind norm = NormKind::kLayerNorm;
  PositionKind position = PositionKind::kLearned;
  ActivationKind activation = ActivationKind::kGelu;
  int num_layers = 0;
  int64_t hidden_size = 0;
  int num_attention_heads = 0;
  int num_key_value_heads = 0;  // = num_attention_heads without grouped queries
  int64_t head_dim = 0;         // num_attention_heads * head_dim may differ from hidden_size
  int64_t ffn_hidden_size = 0;
  int64_t vocab_size = 0;
  int64_t max_sequence_length = 0;
  bool qkv_bias = false;
  bool qk_norm = false;  // RMSNorm of each query and key head before its rotation
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool tied_embeddings = false;
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;
  std::optional<RopeScaling> rope_scaling;
  std::optional<MoeSpec> moe;
  std::optional<MlaSpec> mla;  // then head_dim is qk_nope_head_dim + qk_rope_head_dim
  std::optional<SlidingWindowSpec> sliding_window;
  // Further layers that predict tokens beyond the next (DeepSeek-V3, arXiv:2412.19437, section
  // 2.2): each one more layer, a 2h -> h projection and a pass through the shared head.
  int num_multi_token_layers = 0;
  double init_standard_deviation = 0.02;
  bool operator==(const ModelSpec&) const = default;
};

}  // namespace tessera::spec
