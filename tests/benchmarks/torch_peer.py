#!/usr/bin/python3
"""Trains a GPT-2-like model with PyTorch on the CPU and prints its speed: the peer that the engine
is held against.

    torch_peer.py --layers 12 --hidden 768 --heads 12 --vocab 50257 --batch 4 --seq 256 --threads 2

Prints one JSON object: tokens_per_s and step_time_s (median and best of the steps after the
warm-up), peak_rss_bytes, the number of parameters, losses, versions, the BLAS in use. float32, AdamW,
clipping at 1, random tokens. Needs Debian's python3-torch (or any PyTorch from 1.13 on).
"""

import argparse
import glob
import json
import math
import os
import resource
import statistics
import sys
import time

# Debian's PyTorch calls whichever BLAS loads; OpenBLAS with OpenMP threads is the fastest for it: the
# pthread build's pool fights PyTorch's own.
FASTEST_BLAS = "/usr/lib/*-linux-gnu/openblas-openmp"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50257),
                          ("batch", 4), ("seq", 256), ("steps", 5), ("warmup", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--any-blas", action="store_true",
                        help="take the BLAS that the system is set to")
    return parser.parse_args()


def restart_with_fastest_blas(threads):
    """Replaces this process by one that loads the fastest BLAS, where it is installed."""
    folders = glob.glob(FASTEST_BLAS)
    if not folders or os.environ.get("LD_LIBRARY_PATH", "").startswith(folders[0]):
        return
    old = os.environ.get("LD_LIBRARY_PATH")
    path = folders[0] if not old else f"{folders[0]}:{old}"
    os.execve(sys.executable, [sys.executable, *sys.argv],
              os.environ | {"LD_LIBRARY_PATH": path, "OMP_NUM_THREADS": str(threads)})


def loaded_blas():
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "blas" in line or "blis" in line}
    return sorted(paths)


def make_model(args):
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm = nn.LayerNorm(args.hidden)
            self.qkv = nn.Linear(args.hidden, 3 * args.hidden)
            self.attention_out = nn.Linear(args.hidden, args.hidden)
            self.mlp_norm = nn.LayerNorm(args.hidden)
            self.mlp_in = nn.Linear(args.hidden, 4 * args.hidden)
            self.mlp_out = nn.Linear(4 * args.hidden, args.hidden)

        def forward(self, x, future):
            batch, length, hidden = x.shape
            heads, head_dim = args.heads, hidden // args.heads
            q, k, v = (part.view(batch, length, heads, head_dim).transpose(1, 2)
                       .reshape(batch * heads, length, head_dim)
                       for part in self.qkv(self.attention_norm(x)).split(hidden, dim=2))
            scores = torch.bmm(q, k.transpose(1, 2)) * (1 / math.sqrt(head_dim))
            weights = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
            mixed = torch.bmm(weights, v).view(batch, heads, length, head_dim)
            x = x + self.attention_out(mixed.transpose(1, 2).reshape(batch, length, hidden))
            inner = functional.gelu(self.mlp_in(self.mlp_norm(x)), approximate="tanh")
            return x + self.mlp_out(inner)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.token_embedding = nn.Embedding(args.vocab, args.hidden)
            self.position_embedding = nn.Embedding(args.seq, args.hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(args.layers))
            self.final_norm = nn.LayerNorm(args.hidden)
            for name, parameter in self.named_parameters():
                if parameter.dim() >= 2:
                    # What adds to the residual stream begins smaller (Radford et al. 2019).
                    adds = name.endswith(("attention_out.weight", "mlp_out.weight"))
                    nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * args.layers if adds else 1))
                elif name.endswith("bias"):
                    nn.init.zeros_(parameter)

        def forward(self, tokens, labels):
            length = tokens.shape[1]
            future = torch.ones(length, length, dtype=torch.bool).triu(1)
            x = self.token_embedding(tokens) + self.position_embedding.weight[:length]
            for block in self.blocks:
                x = block(x, future)
            logits = functional.linear(self.final_norm(x), self.token_embedding.weight)
            return functional.cross_entropy(logits.view(-1, args.vocab), labels.reshape(-1))

    return Model()


def make_optimizer(model):
    import torch

    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                              {"params": vectors, "weight_decay": 0.0}],
                             lr=3e-4, betas=(0.9, 0.95), eps=1e-8)


def train(args):
    """Returns (seconds of each step after the warm-up, loss of every step, parameters)."""
    import torch

    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    model = make_model(args)
    optimizer = make_optimizer(model)
    seconds, losses = [], []
    for step in range(args.warmup + args.steps):
        window = torch.randint(args.vocab, (args.batch, args.seq + 1))
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = model(window[:, :-1], window[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step >= args.warmup:
            seconds.append(time.perf_counter() - start)
    return seconds, losses, sum(p.numel() for p in model.parameters())


def main():
    args = parse_arguments()
    if not args.any_blas:
        restart_with_fastest_blas(args.threads)
    import torch

    seconds, losses, num_parameters = train(args)
    tokens = args.batch * args.seq
    median, best = statistics.median(seconds), min(seconds)
    print(json.dumps({
        "program": f"torch {torch.__version__}",
        "blas": loaded_blas(),
        "threads": args.threads,
        "num_parameters": num_parameters,
        "tokens_per_step": tokens,
        "num_steps": args.steps,
        "step_time_s": {"median": median, "best": best},
        "tokens_per_s": {"median": tokens / median, "best": tokens / best},
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "first_loss": losses[0],
        "last_loss": losses[-1],
    }, indent=1))


if __name__ == "__main__":
    main()
