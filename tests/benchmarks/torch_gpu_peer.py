#!/usr/bin/env python3
"""Trains a model with PyTorch on the GPU: the peer that the CUDA engine is held against.

    torch_gpu_peer.py --model model.json --batch 32 --sequence 1024 --tokens tokens.i32

The model is a file of configs/models (GPT-2 or Llama form), the tokens are 32-bit integers: step i
takes the windows from i * batch * sequence on. As fast as plain PyTorch gets it: torch.compile, bf16
products by autocast over fp32 weights, scaled_dot_product_attention (cuDNN's or flash, whichever is
faster here), fused AdamW, clipping at 1. Prints one JSON object: step_times_s and losses of the steps
after the warm-up (losses: of all), peak_memory_bytes, attention, compile_s, versions.
"""

import argparse
import array
import json
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", required=True)
    for name, default in (("batch", 8), ("sequence", 1024), ("steps", 10), ("warmup", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    return parser.parse_args()


def rotation_tables(length, head_dim, theta, device):
    frequency = theta ** (-torch.arange(0, head_dim, 2, device=device, dtype=torch.float64) / head_dim)
    angle = torch.outer(torch.arange(length, device=device, dtype=torch.float64), frequency)
    angle = torch.cat((angle, angle), dim=1)
    return angle.cos().to(torch.bfloat16), angle.sin().to(torch.bfloat16)


def rotate(x, cosine, sine):
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


class Attention(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.heads, self.kv_heads = spec["num_attention_heads"], spec["num_key_value_heads"]
        self.head_dim = spec["head_dim"]
        hidden, width = spec["hidden_size"], self.heads * self.head_dim
        self.qkv = nn.Linear(hidden, width + 2 * self.kv_heads * self.head_dim, bias=spec["qkv_bias"])
        self.out = nn.Linear(width, hidden, bias=spec["attention_output_bias"])

    def forward(self, x, rotation):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, -1, self.head_dim).transpose(1, 2).split(
            (self.heads, self.kv_heads, self.kv_heads), dim=1)
        if rotation is not None:
            q, k = rotate(q, *rotation), rotate(k, *rotation)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                        enable_gqa=self.heads != self.kv_heads)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


class Mlp(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.gated = spec["activation"] == "swiglu"
        hidden, ffn = spec["hidden_size"], spec["ffn_hidden_size"]
        self.up = nn.Linear(hidden, 2 * ffn if self.gated else ffn, bias=spec["mlp_bias"])
        self.down = nn.Linear(ffn, hidden, bias=spec["mlp_bias"])

    def forward(self, x):
        if not self.gated:
            return self.down(functional.gelu(self.up(x), approximate="tanh"))
        gate, up = self.up(x).chunk(2, dim=-1)
        return self.down(functional.silu(gate) * up)


def make_norm(spec):
    kind = nn.RMSNorm if spec["norm"] == "rmsnorm" else nn.LayerNorm
    return kind(spec["hidden_size"], eps=spec["norm_epsilon"])


class Block(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.attention_norm, self.attention = make_norm(spec), Attention(spec)
        self.mlp_norm, self.mlp = make_norm(spec), Mlp(spec)

    def forward(self, x, rotation):
        x = x + self.attention(self.attention_norm(x), rotation)
        return x + self.mlp(self.mlp_norm(x))


class Model(nn.Module):
    def __init__(self, spec, length):
        super().__init__()
        hidden, vocab = spec["hidden_size"], spec["vocab_size"]
        # The vocabulary rounded up to 128, as fast programs do: the rows behind are never met.
        padded = (vocab + 127) // 128 * 128
        self.embedding = nn.Embedding(padded, hidden)
        learned = spec["position"] == "learned"
        self.positions = nn.Embedding(length, hidden) if learned else None
        self.blocks = nn.ModuleList(Block(spec) for _ in range(spec["num_layers"]))
        self.norm = make_norm(spec)
        self.head = nn.Linear(hidden, padded, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=spec["init_standard_deviation"])
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        if spec["tied_embeddings"]:
            self.head.weight = self.embedding.weight
        self.rope = None if learned else (length, spec["head_dim"], spec["rope_theta"])

    def forward(self, tokens, labels, rotation):
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions.weight
        for block in self.blocks:
            x = block(x, rotation)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def make_optimizer(model, fused):
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                              {"params": vectors, "weight_decay": 0.0}],
                             lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=fused)


def read_windows(path, num_steps, batch, length):
    """Tokens of every step, [num_steps, batch, length + 1]; a window's last is the next one's first."""
    values = array.array("i")
    with open(path, "rb") as file:
        values.fromfile(file, num_steps * batch * length + 1)
    tokens = torch.tensor(values, dtype=torch.int64)
    starts = torch.arange(num_steps * batch) * length
    return tokens[starts[:, None] + torch.arange(length + 1)].view(num_steps, batch, length + 1)


def train(args, attention, num_steps):
    """Returns (seconds of each step, losses, seconds of the first)."""
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    on_gpu = args.device == "cuda"
    with open(args.model) as file:
        spec = json.load(file)
    with torch.device(args.device):
        model = Model(spec, args.sequence)
    rotation = rotation_tables(*model.rope, args.device) if model.rope else None
    optimizer = make_optimizer(model, on_gpu)
    forward = model if args.eager else torch.compile(model)
    windows = read_windows(args.tokens, num_steps, args.batch, args.sequence).to(args.device)
    seconds, losses = [], []
    with sdpa_kernel(attention):
        for window in windows:
            start = time.perf_counter()
            with torch.autocast(args.device, dtype=torch.bfloat16):
                loss = forward(window[:, :-1].contiguous(), window[:, 1:].contiguous(), rotation)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())  # waits for the step's forward pass alone
            if on_gpu:
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
    return seconds, losses


def fastest_attention(args):
    """The faster of the two fused kernels on this model's shape, forward and backward, by trial."""
    if args.device != "cuda":
        return SDPBackend.MATH
    with open(args.model) as file:
        spec = json.load(file)
    best = None
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        make = lambda heads: torch.randn(args.batch, heads, args.sequence, spec["head_dim"],
                                         device="cuda", dtype=torch.bfloat16, requires_grad=True)
        q = make(spec["num_attention_heads"])
        k, v = make(spec["num_key_value_heads"]), make(spec["num_key_value_heads"])
        try:
            with sdpa_kernel(backend):
                for trial in range(4):
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    functional.scaled_dot_product_attention(
                        q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1]).sum().backward()
                    torch.cuda.synchronize()
                    took = time.perf_counter() - start
        except RuntimeError:
            continue
        if best is None or took < best[0]:
            best = (took, backend)
    return best[1] if best else SDPBackend.MATH


def main():
    args = parse_arguments()
    attention = fastest_attention(args)
    if args.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds, losses = train(args, attention, args.warmup + args.steps)
    print(json.dumps({
        "program": f"torch {torch.__version__}",
        "attention": attention.name,
        "compiled": not args.eager,
        "compile_s": seconds[0],
        "step_times_s": seconds[args.warmup:],
        "losses": losses,
        "peak_memory_bytes": torch.cuda.max_memory_allocated() if args.device == "cuda" else None,
    }))


if __name__ == "__main__":
    main()
