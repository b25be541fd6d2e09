#!/usr/bin/python3
"""Runs train_benchmark and its PyTorch peer in turns on the same shapes and prints the ratios.

    compare_training.py --engine build/cpu-release/bin/train_benchmark --steps 3
"""

import argparse
import json
import os
import subprocess
import sys

PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_peer.py")
SHAPES = {
    "GPT-2 124M, 4 x 256 tokens": ["--batch", "4", "--seq", "256"],
    "GPT-2 124M, 1 x 1024 tokens": ["--batch", "1", "--seq", "1024"],
    "10.7M parameters, 16 x 256 tokens": ["--layers", "6", "--hidden", "384", "--heads", "6",
                                          "--vocab", "256", "--batch", "16", "--seq", "256"],
}
LAYOUTS = {
    "1 rank x 2 threads": [],
    "tp 2 x 1 thread": ["--tp", "2"],
    "dp 2 x 1 thread": ["--dp", "2"],
}


def run_json(command, last_line_only):
    """The JSON that a command prints: all of its output, or its last line."""
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1] if last_line_only else output)


def has_torch():
    return subprocess.run([sys.executable, "-c", "import torch"], capture_output=True,
                          check=False).returncode == 0


def row(name, tokens_per_s, share, peak_bytes, ratio):
    share = f"{100 * share:5.1f} % of sgemm" if share else " " * 16
    ratio = f"{ratio:5.2f} x PyTorch" if ratio else ""
    print(f"  {name:20s} {tokens_per_s:8.1f} tokens/s  {share}  {peak_bytes / 1e9:5.2f} GB  {ratio}",
          flush=True)


def compare(shape, options, with_peer):
    print(shape, flush=True)
    peer_speed = None
    if with_peer:
        peer = run_json([sys.executable, PEER, *options], last_line_only=False)
        peer_speed = peer["tokens_per_s"]["median"]
        row("PyTorch, 2 threads", peer_speed, None, peer["peak_rss_bytes"], None)
    num_samples = int(options[options.index("--batch") + 1])
    for name, layout in LAYOUTS.items():
        if "--dp" in layout and num_samples % 2:
            continue
        # One JSON line ends the benchmark's report.
        run = run_json([ARGUMENTS.engine, *options, *layout], last_line_only=True)
        row(name, run["tokens_per_s"], run["share_of_sgemm"], run["peak_rss_bytes"],
            peer_speed and run["tokens_per_s"] / peer_speed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", required=True, help="the train_benchmark program")
    parser.add_argument("--steps", default="3", help="measured steps of each run")
    ARGUMENTS = parser.parse_args()
    with_torch = has_torch()
    if not with_torch:
        print("no PyTorch here (Debian's python3-torch): the engine alone")
    for shape_name, shape_options in SHAPES.items():
        compare(shape_name, [*shape_options, "--threads", "2", "--steps", ARGUMENTS.steps], with_torch)
