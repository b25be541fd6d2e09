"""The golden trainings: for each a Hugging Face config and the hyper-parameters.

Four layers each, so that four stages and two stages of two chunks can hold them; sizes that four
tensor-parallel ranks divide. Between them the cases cover every choice of the optimizer's settings.
"""


def _settings(**changes):
    return {
        "steps": 10,
        "global_batch_size": 8,
        "seq_length": 32,
        "lr": 0.005,
        "min_lr": 0.0005,
        "lr_warmup_steps": 3,
        "lr_decay_steps": 10,
        "lr_decay_style": "cosine",
        "adam_beta1": 0.9,
        "adam_beta2": 0.95,
        # Far above the rounding of float32 gradients: with 1e-8 the first steps would amplify it.
        "adam_eps": 1e-06,
        "weight_decay": 0.1,
        "clip_grad": 1.0,
    } | changes


def _gpt2(**changes):
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": 96,
        "n_positions": 40,
        "n_embd": 32,
        "n_layer": 4,
        "n_head": 4,
        "n_inner": None,
        "layer_norm_epsilon": 1e-05,
        "activation_function": "gelu_new",
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
    } | changes


def _llama(**changes):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": 96,
        "hidden_size": 32,
        "intermediate_size": 80,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "attention_bias": False,
        "torch_dtype": "float32",
    } | changes


def _qwen2(**changes):
    config = _llama(**changes) | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
    del config["attention_bias"]  # The family always has q, k and v biases and no key to say so.
    return config


def _mixtral(**changes):
    config = _llama(num_key_value_heads=4) | {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "intermediate_size": 40,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "output_router_logits": False,
        "router_aux_loss_coef": 0.02,
        "sliding_window": None,
    }
    del config["attention_bias"]
    return config | changes


CASES = {
    "gpt2-tiny": (_gpt2(), _settings()),
    # A vocabulary that no number of ranks divides, an MLP that is not four times as wide.
    "gpt2-odd-vocab": (
        _gpt2(vocab_size=101, n_embd=40, n_inner=80),
        _settings(lr_decay_style="linear", clip_grad=0.4, weight_decay=0.05),
    ),
    # Fewer key and value heads than four tensor-parallel ranks.
    "llama-gqa": (_llama(), _settings()),
    # Attention wider than the hidden size, shared embeddings, no warm-up, no clipping.
    "llama-tied-mha": (
        _llama(num_attention_heads=4, num_key_value_heads=4, head_dim=12, intermediate_size=72,
               rope_theta=500000.0, rms_norm_eps=1e-06, tie_word_embeddings=True),
        _settings(lr=0.002, lr_warmup_steps=0, lr_decay_style="constant", clip_grad=0.0),
    ),
    # Llama 3.1's stretched rotary frequencies; all three of its bands lie within 32 tokens.
    "llama-rope-scaling": (
        _llama(num_key_value_heads=4, head_dim=16, intermediate_size=48, num_attention_heads=4,
               rope_theta=1000.0,
               rope_scaling={"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                             "high_freq_factor": 4.0, "original_max_position_embeddings": 32}),
        _settings(lr_warmup_steps=1),
    ),
    # Biases on q, k and v; the rate reaches its floor before the last step.
    "qwen2-tiny": (
        _qwen2(num_key_value_heads=4, rope_theta=1000000.0),
        _settings(lr_decay_style="linear", lr_decay_steps=8, weight_decay=0.0, adam_beta2=0.99),
    ),
    # Two of four experts a token.
    "mixtral-tiny": (_mixtral(), _settings(lr=0.002)),
    # Three of eight narrow experts, whose routers add a loss that balances the load.
    "mixtral-balanced": (
        _mixtral(num_hidden_layers=2, intermediate_size=16, num_local_experts=8,
                 num_experts_per_tok=3, output_router_logits=True, router_aux_loss_coef=0.05),
        _settings(lr=0.002, lr_decay_style="linear", clip_grad=0.5),
    ),
}
