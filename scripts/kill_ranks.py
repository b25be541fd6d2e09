#!/usr/bin/env python3
"""Trains with processes of which a random one is killed at a random moment, again and again, and
holds the loss curve that comes out against the undisturbed one: they must be equal to the bit.

    kill_ranks.py TESSERA FOLDER [--rounds 100] [--steps 200] [--seed 1]

TESSERA is the built program, FOLDER a place for a small job, its checkpoints and its metrics.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

MODEL = {
    "name": "small", "norm": "rmsnorm", "position": "rope", "activation": "swiglu",
    "num_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4,
    "head_dim": 16, "ffn_hidden_size": 128, "vocab_size": 257, "max_sequence_length": 64,
    "qkv_bias": False, "attention_output_bias": False, "mlp_bias": False,
    "tied_embeddings": False, "norm_epsilon": 1e-5, "rope_theta": 10000,
    "init_standard_deviation": 0.02,
}
LAYOUT = ("--devices 4 --tp 2 --pp 2 --schedule 1f1b --micro-batch-size 2 --global-batch-size 8 "
          "--seq-length 32").split()


def make_job(tessera, folder):
    def run(*words):
        subprocess.run([tessera, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    (folder / "model.json").write_text(json.dumps(MODEL))
    (folder / "train.json").write_text('{"lr": 0.004, "lr_decay_style": "constant"}')
    (folder / "text.txt").write_text("the ranks wait for each other and then go on.\n" * 1000)
    run("data", "build", "text.txt", "--out", "corpus", "--append-eod", "--quiet")
    run("plan", "--model", "model.json", "--cluster", "local-cpu", "--quiet", *LAYOUT,
        "--out", "plan.json")


def command(tessera, steps, metrics, save):
    return [tessera, "train", "--plan", "plan.json", "--data", "corpus", "--quiet",
            "--hyperparameters", "train.json", "--steps", str(steps), "--metrics", metrics,
            "--save", save, "--save-interval", "10"]


def curve(path):
    """(step, loss, gradient norm) of each row."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [(row["step"], row["loss"], row["grad_norm"]) for row in rows]


def ranks_of(launcher):
    """Processes whose parent is the launcher."""
    ranks = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # gone meanwhile
        if int(fields[1]) == launcher and fields[0] != "Z":
            ranks.append(int(entry.name))
    return ranks


def disturbed_round(tessera, folder, steps, calm_s, chance):
    """Returns (exit code, processes killed, what the run said)."""
    for leftover in (folder / "disturbed").glob("*/*"):
        leftover.unlink()
    for leftover in (folder / "disturbed").glob("*"):
        leftover.rmdir() if leftover.is_dir() else leftover.unlink()
    words = command(tessera, steps, "disturbed.jsonl", "disturbed")
    run = subprocess.Popen([*words, "--comm", "gloo", "--restart", "9", "--timeout", "20"],
                           cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                           text=True)
    killed = 0
    for _ in range(chance.randint(1, 2)):
        time.sleep(chance.uniform(0, calm_s))
        victims = ranks_of(run.pid)
        if run.poll() is None and victims:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(chance.choice(victims), signal.SIGKILL)
                killed += 1
    _, said = run.communicate(timeout=600)
    return run.returncode, killed, said


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tessera = str(pathlib.Path(options.tessera).resolve())
    options.folder.mkdir(parents=True, exist_ok=True)
    make_job(tessera, options.folder)
    start = time.monotonic()
    subprocess.run([*command(tessera, options.steps, "calm.jsonl", "calm"), "--comm", "gloo"],
                   cwd=options.folder, check=True, stdout=subprocess.DEVNULL)
    calm_s = time.monotonic() - start
    expected = curve(options.folder / "calm.jsonl")
    chance = random.Random(options.seed)
    num_killed = 0
    for number in range(1, options.rounds + 1):
        code, killed, said = disturbed_round(tessera, options.folder, options.steps, calm_s, chance)
        num_killed += killed
        if code != 0 or curve(options.folder / "disturbed.jsonl") != expected:
            print(f"kill_ranks: round {number}: exit code {code}, or another curve\n{said}")
            return 1
        print(f"kill_ranks: round {number}: {killed} killed, the curve is the undisturbed one",
              flush=True)
    print(f"kill_ranks: {options.rounds} rounds, {num_killed} processes killed, "
          f"{options.steps} steps each: every curve is the undisturbed one to the bit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
