#!/usr/bin/python3
"""Trains a GPT of 10.8 million parameters on a text with tessera and with PyTorch, with several seeds
each, and holds the losses that they reach over held-out text against each other.

    compare_convergence.py --tessera build/cpu-release/bin/tessera --text FILE [--steps 300]
                           [--seeds 3] [--devices 2] [--folder DIR]

Same model, same start (of other random numbers), same recipe: bytes as tokens, windows of the first
nine tenths of the text in random order, AdamW, warm-up and cosine, clipping at 1, float32. Each
seed draws other weights and another order. Ends with 1 where the means differ by more than what
Student's t at 95 % allows for the spread of the seeds. Needs Debian's python3-torch (or any PyTorch
from 1.13 on). Results are kept in --folder, and runs found there are not repeated.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import types

import torch_peer

BATCH, LENGTH, VOCABULARY = 4, 128, 256
MODEL = types.SimpleNamespace(layers=6, hidden=384, heads=6, vocab=VOCABULARY, seq=256)
LR, MIN_LR, WARMUP_STEPS = 1e-3, 1e-4, 20
# Two-sided 95 % points of Student's t by degrees of freedom.
STUDENT_T = {2: 4.303, 4: 2.776, 6: 2.447, 8: 2.306, 10: 2.228}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", type=pathlib.Path)
    parser.add_argument("--text", required=True, type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3, choices=[2, 3, 4, 5, 6])
    parser.add_argument("--devices", type=int, default=2, help="ranks of tessera's runs")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of PyTorch")
    parser.add_argument("--folder", type=pathlib.Path, default="convergence")
    parser.add_argument("--peer-seed", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def split(text):
    """(bytes to train on, bytes held out), the latter of whole batches of windows and one byte."""
    cut = len(text) * 9 // 10
    num_windows = (len(text) - cut - 1) // LENGTH // BATCH * BATCH
    return text[:cut], text[cut:cut + num_windows * LENGTH + 1]


def learning_rate(step, steps):
    """Of the update that follows step - 1 others: linear warm-up, then half a cosine."""
    if step <= WARMUP_STEPS:
        return LR * step / WARMUP_STEPS
    done = (step - WARMUP_STEPS) / (steps - WARMUP_STEPS)
    return MIN_LR + (LR - MIN_LR) * 0.5 * (1 + math.cos(math.pi * done))


def windows(data, indices):
    """(tokens, labels) of the windows with these numbers, [batch, LENGTH] each."""
    import torch

    rows = torch.stack([torch.tensor(list(data[i * LENGTH:(i + 1) * LENGTH + 1])) for i in indices])
    return rows[:, :-1], rows[:, 1:]


def train_peer(args, seed):
    """Trains with PyTorch; returns (loss of every step, loss over the held-out text)."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(args.threads)
    training, held_out = split(args.text.read_bytes())
    model = torch_peer.make_model(MODEL)
    optimizer = torch_peer.make_optimizer(model)
    order = torch.randperm((len(training) - 1) // LENGTH).tolist()
    losses = []
    for step in range(1, args.steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args.steps)
        first = (step - 1) * BATCH
        batch = [order[i % len(order)] for i in range(first, first + BATCH)]
        optimizer.zero_grad(set_to_none=True)
        loss = model(*windows(training, batch))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 50 == 0:
            print(f"PyTorch, seed {seed}, step {step}: {losses[-1]:.4f}", file=sys.stderr, flush=True)
    num_windows = (len(held_out) - 1) // LENGTH
    with torch.no_grad():
        parts = [model(*windows(held_out, range(i, i + BATCH))).item()
                 for i in range(0, num_windows, BATCH)]
    return losses, statistics.fmean(parts)


def run(command):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def prepare(args):
    """Token files of both parts of the text, and the plan, in --folder."""
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, part in zip(("training", "held-out"), split(args.text.read_bytes())):
        (args.folder / f"{name}.u8").write_bytes(part)
    run([args.tessera, "plan", "--model", "nano-gpt", "--cluster", "local-cpu", "--devices",
         args.devices, "--precision", "fp32", "--global-batch-size", BATCH, "--seq-length", LENGTH,
         "--out", args.folder / "plan.json"])


def train_tessera(args, seed):
    """Trains with tessera; returns (loss of every step, loss over the held-out text)."""
    folder = args.folder
    hyperparameters = {"lr": LR, "min_lr": MIN_LR, "lr_warmup_steps": WARMUP_STEPS, "seed": seed,
                       "lr_decay_style": "cosine", "adam_beta1": 0.9, "adam_beta2": 0.95,
                       "adam_eps": 1e-8, "weight_decay": 0.1, "clip_grad": 1.0}
    (folder / "train.json").write_text(json.dumps(hyperparameters))
    metrics = folder / "metrics.jsonl"
    num_windows = ((folder / "held-out.u8").stat().st_size - 1) // LENGTH
    run([args.tessera, "train", "--plan", folder / "plan.json", "--data", folder / "training.u8",
         "--data-format", "raw-u8", "--valid-data", folder / "held-out.u8", "--eval-samples",
         num_windows, "--steps", args.steps, "--hyperparameters", folder / "train.json",
         "--metrics", metrics, "--quiet"])
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [row["loss"] for row in rows], rows[-1]["validation_loss"]


def train_peer_apart(args, seed):
    """train_peer in a process of its own, which loads the BLAS that PyTorch is fastest with."""
    command = [sys.executable, __file__, "--text", args.text, "--steps", args.steps,
               "--threads", args.threads, "--peer-seed", seed]
    output = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE)
    return json.loads(output.stdout)


def results(args, name, train):
    """Held-out losses of all seeds."""
    losses = []
    for seed in range(1, args.seeds + 1):
        path = args.folder / f"{name}-seed{seed}-steps{args.steps}.json"
        if not path.exists():
            path.write_text(json.dumps(train(args, seed)))
        curve, held_out = json.loads(path.read_text())
        print(f"{name:8s} seed {seed}: loss {curve[0]:.4f} -> {statistics.fmean(curve[-10:]):.4f} "
              f"(mean of the last 10 steps), held-out {held_out:.4f}", flush=True)
        losses.append(held_out)
    return losses


def compare(ours, theirs):
    """Prints the means and whether they differ by no more than the seeds' spread allows."""
    count = len(ours)
    error = math.sqrt((statistics.variance(ours) + statistics.variance(theirs)) / count)
    allowed = STUDENT_T[2 * count - 2] * error
    difference = statistics.fmean(ours) - statistics.fmean(theirs)
    for name, losses in (("tessera", ours), ("PyTorch", theirs)):
        print(f"{name:8s} held-out {statistics.fmean(losses):.4f} +- {statistics.stdev(losses):.4f}")
    print(f"difference {difference:+.4f}; the seeds' spread allows {allowed:.4f}")
    return abs(difference) <= allowed


def main():
    args = arguments()
    if args.peer_seed is not None:
        torch_peer.restart_with_fastest_blas(args.threads)
        print(json.dumps(train_peer(args, args.peer_seed)))
        return 0
    if not args.tessera:
        sys.exit("compare_convergence.py: --tessera is missing")
    prepare(args)
    ours = results(args, "tessera", train_tessera)
    theirs = results(args, "PyTorch", train_peer_apart)
    return 0 if compare(ours, theirs) else 1


if __name__ == "__main__":
    sys.exit(main())
