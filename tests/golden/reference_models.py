"""GPT-2, Llama, Qwen2 and Mixtral in plain PyTorch: slow, literal, and sharing nothing with the engine.

A model is a Hugging Face config (a dictionary) and a dictionary of parameters under their Hugging
Face names; parameter_shapes lists them, logits runs them. Shapes in comments: b samples, s tokens a
sample, h hidden size, a heads, d head size, e experts.
"""

import math

import torch


def _gpt2_shapes(config):
    hidden, vocab = config["n_embd"], config["vocab_size"]
    ffn = config.get("n_inner") or 4 * hidden
    shapes = {
        "transformer.wte.weight": (vocab, hidden),
        "transformer.wpe.weight": (config["n_positions"], hidden),
    }
    for layer in range(config["n_layer"]):
        prefix = f"transformer.h.{layer}."
        shapes.update({
            prefix + "ln_1.weight": (hidden,),
            prefix + "ln_1.bias": (hidden,),
            prefix + "attn.c_attn.weight": (hidden, 3 * hidden),
            prefix + "attn.c_attn.bias": (3 * hidden,),
            prefix + "attn.c_proj.weight": (hidden, hidden),
            prefix + "attn.c_proj.bias": (hidden,),
            prefix + "ln_2.weight": (hidden,),
            prefix + "ln_2.bias": (hidden,),
            prefix + "mlp.c_fc.weight": (hidden, ffn),
            prefix + "mlp.c_fc.bias": (ffn,),
            prefix + "mlp.c_proj.weight": (ffn, hidden),
            prefix + "mlp.c_proj.bias": (hidden,),
        })
    shapes["transformer.ln_f.weight"] = (hidden,)
    shapes["transformer.ln_f.bias"] = (hidden,)
    return shapes


def _head_dim(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def _has_qkv_bias(config):
    return config["model_type"] == "qwen2" or config.get("attention_bias", False)


def _llama_shapes(config):
    hidden, vocab, ffn = config["hidden_size"], config["vocab_size"], config["intermediate_size"]
    q_width = config["num_attention_heads"] * _head_dim(config)
    kv_width = config["num_key_value_heads"] * _head_dim(config)
    shapes = {"model.embed_tokens.weight": (vocab, hidden)}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        shapes[prefix + "input_layernorm.weight"] = (hidden,)
        for name, width in (("q", q_width), ("k", kv_width), ("v", kv_width)):
            shapes[prefix + f"self_attn.{name}_proj.weight"] = (width, hidden)
            if _has_qkv_bias(config):
                shapes[prefix + f"self_attn.{name}_proj.bias"] = (width,)
        shapes.update({
            prefix + "self_attn.o_proj.weight": (hidden, q_width),
            prefix + "post_attention_layernorm.weight": (hidden,),
        })
        if config["model_type"] == "mixtral":
            experts = config["num_local_experts"]
            shapes[prefix + "block_sparse_moe.gate.weight"] = (experts, hidden)
            for expert in range(experts):
                at = prefix + f"block_sparse_moe.experts.{expert}."
                shapes.update({at + "w1.weight": (ffn, hidden), at + "w2.weight": (hidden, ffn),
                               at + "w3.weight": (ffn, hidden)})
        else:
            shapes.update({
                prefix + "mlp.gate_proj.weight": (ffn, hidden),
                prefix + "mlp.up_proj.weight": (ffn, hidden),
                prefix + "mlp.down_proj.weight": (hidden, ffn),
            })
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocab, hidden)
    return shapes


def parameter_shapes(config):
    """{Hugging Face name: shape} in the order of the forward pass; tied heads are left out."""
    return _gpt2_shapes(config) if config["model_type"] == "gpt2" else _llama_shapes(config)


def _causal_attention(q, k, v):
    """q, k, v: [b, a, s, d], as many key and value heads as query heads. Returns [b, s, a * d]."""
    batch, heads, sequence, head_dim = q.shape
    scores = q @ k.transpose(-1, -2) / math.sqrt(head_dim)
    future = torch.ones(sequence, sequence, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
    return (weights @ v).transpose(1, 2).reshape(batch, sequence, heads * head_dim)


def _layer_norm(x, weight, bias, epsilon):
    centered = x - x.mean(-1, keepdim=True)
    variance = centered.square().mean(-1, keepdim=True)
    return centered / torch.sqrt(variance + epsilon) * weight + bias


def _gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _gpt2_logits(config, parameters, tokens):
    heads, epsilon = config["n_head"], config["layer_norm_epsilon"]
    batch, sequence = tokens.shape
    embedding = parameters["transformer.wte.weight"]
    x = embedding[tokens] + parameters["transformer.wpe.weight"][:sequence]
    for layer in range(config["n_layer"]):
        at = lambda name: parameters[f"transformer.h.{layer}.{name}"]
        normed = _layer_norm(x, at("ln_1.weight"), at("ln_1.bias"), epsilon)
        qkv = normed @ at("attn.c_attn.weight") + at("attn.c_attn.bias")
        q, k, v = (part.reshape(batch, sequence, heads, -1).transpose(1, 2)
                   for part in qkv.chunk(3, dim=-1))
        attended = _causal_attention(q, k, v)
        x = x + attended @ at("attn.c_proj.weight") + at("attn.c_proj.bias")
        normed = _layer_norm(x, at("ln_2.weight"), at("ln_2.bias"), epsilon)
        inner = _gelu_tanh(normed @ at("mlp.c_fc.weight") + at("mlp.c_fc.bias"))
        x = x + inner @ at("mlp.c_proj.weight") + at("mlp.c_proj.bias")
    x = _layer_norm(x, parameters["transformer.ln_f.weight"], parameters["transformer.ln_f.bias"],
                    epsilon)
    return x @ embedding.T


def _rms_norm(x, weight, epsilon):
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + epsilon) * weight


def _rope_frequencies(config, dtype):
    """Radians a position, one per pair of features: [d / 2]."""
    head_dim = _head_dim(config)
    exponents = torch.arange(0, head_dim, 2, dtype=dtype) / head_dim
    frequencies = config["rope_theta"] ** -exponents
    scaling = config.get("rope_scaling")
    if scaling is None:
        return frequencies
    # "llama3": wavelengths above the old context are stretched by `factor`, those well inside it
    # are kept, those between are blended.
    assert scaling["rope_type"] == "llama3", scaling
    old_length = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = old_length * frequencies / (2 * math.pi)  # of each pair within the old context
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / scaling["factor"])


def _rotate(x, frequencies):
    """Turns features i and i + d/2 of x [b, a, s, d] by position * frequency i."""
    positions = torch.arange(x.shape[2], dtype=x.dtype)
    angles = positions[:, None] * frequencies
    first, second = x.chunk(2, dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def _swiglu_mlp(x, gate, up, down):
    inner = x @ gate.T
    return (inner * torch.sigmoid(inner) * (x @ up.T)) @ down.T


def _mixture(config, at, x):
    """x: [b, s, h]. Returns the experts' sum [b, s, h] and each sample's loss that balances the load, [b].

    A token's weights are the softmax over all experts at its best ones, made to sum to 1. The loss of
    a sample of s tokens, each with k experts, is e / (k s) * sum over experts of (tokens that chose it)
    * (mean probability), of which the first factor is a constant.
    """
    experts, chosen_each = config["num_local_experts"], config["num_experts_per_tok"]
    probabilities = torch.softmax(x @ at("block_sparse_moe.gate.weight").T, dim=-1)
    best, chosen = torch.topk(probabilities, chosen_each, dim=-1)
    weights = best / best.sum(-1, keepdim=True)
    output = torch.zeros_like(x)
    counts = []
    for expert in range(experts):
        is_chosen = chosen == expert  # [b, s, k], at most once a token
        counts.append(is_chosen.sum((1, 2)))
        result = _swiglu_mlp(x, *(at(f"block_sparse_moe.experts.{expert}.{name}.weight")
                                  for name in ("w1", "w3", "w2")))
        output = output + (weights * is_chosen).sum(-1, keepdim=True) * result
    counts = torch.stack(counts, dim=-1).to(x.dtype)  # [b, e]
    balance = experts / (chosen_each * x.shape[1]) * (counts * probabilities.mean(1)).sum(-1)
    return output, balance


def _llama_logits(config, parameters, tokens):
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    epsilon, head_dim = config["rms_norm_eps"], _head_dim(config)
    batch, sequence = tokens.shape
    embedding = parameters["model.embed_tokens.weight"]
    frequencies = _rope_frequencies(config, embedding.dtype)
    x = embedding[tokens]
    balance = torch.zeros(batch, dtype=x.dtype)
    for layer in range(config["num_hidden_layers"]):
        at = lambda name: parameters[f"model.layers.{layer}.{name}"]
        normed = _rms_norm(x, at("input_layernorm.weight"), epsilon)

        def project(name, num_heads):
            y = normed @ at(f"self_attn.{name}_proj.weight").T
            if _has_qkv_bias(config):
                y = y + at(f"self_attn.{name}_proj.bias")
            return y.reshape(batch, sequence, num_heads, head_dim).transpose(1, 2)

        q = _rotate(project("q", heads), frequencies)
        k = _rotate(project("k", kv_heads), frequencies)
        v = project("v", kv_heads)
        k, v = (part.repeat_interleave(heads // kv_heads, dim=1) for part in (k, v))
        x = x + _causal_attention(q, k, v) @ at("self_attn.o_proj.weight").T
        normed = _rms_norm(x, at("post_attention_layernorm.weight"), epsilon)
        if config["model_type"] == "mixtral":
            mixed, layer_balance = _mixture(config, at, normed)
            x = x + mixed
            balance = balance + layer_balance
        else:
            x = x + _swiglu_mlp(normed, *(at(f"mlp.{name}_proj.weight")
                                          for name in ("gate", "up", "down")))
    x = _rms_norm(x, parameters["model.norm.weight"], epsilon)
    head = embedding if config["tie_word_embeddings"] else parameters["lm_head.weight"]
    return x @ head.T, balance


def logits(config, parameters, tokens):
    """tokens: int64 [b, s]. Returns [b, s, vocab_size], and what the layers' routers add to the loss."""
    if config["model_type"] == "gpt2":
        return _gpt2_logits(config, parameters, tokens), 0.0
    scores, balance = _llama_logits(config, parameters, tokens)
    is_added = config.get("output_router_logits", False)
    return scores, (config["router_aux_loss_coef"] * balance.mean() if is_added else 0.0)
