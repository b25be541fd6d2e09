#!/usr/bin/python3
"""Makes the golden trainings beside this file, or holds others against the reference program.

    make_golden.py [CASE...]            write every case, or those named, into its folder
    make_golden.py --check FOLDER...    train what each folder holds, print the largest relative
                                        differences from its expected.json
    make_golden.py --check --float32 FOLDER...

Needs PyTorch (Debian: python3-torch); the tests only read the files that it wrote. Weights and
tokens come from Python's own generator with a fixed seed a tensor, so they are the same everywhere.
"""

import argparse
import array
import json
import pathlib
import random
import sys

import torch

import golden_cases
import reference_models
import reference_training
import safetensors_file

HERE = pathlib.Path(__file__).resolve().parent


def initial_weights(case, config):
    """Values far from every special point: gains near 1 but not 1, biases near 0 but not 0, matrices
    large enough for attention to prefer some tokens: a term left out anywhere shows in the loss."""
    weights = {}
    for name, shape in reference_models.parameter_shapes(config).items():
        draw = random.Random(f"{case}/{name}")
        is_gain = len(shape) == 1 and name.endswith("weight")
        mean, deviation = (1.0, 0.1) if is_gain else (0.0, 0.05 if len(shape) == 1 else 0.12)
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        weights[name] = (shape, [draw.gauss(mean, deviation) for _ in range(count)])
    return weights


def token_stream(case, vocab_size, count):
    """A noisy walk over the vocabulary: three of four tokens follow from the one before, so there is
    something to learn; every id appears, the highest among them."""
    draw = random.Random(f"{case}/tokens")
    successor = list(range(vocab_size))
    draw.shuffle(successor)
    tokens = [vocab_size - 1]
    while len(tokens) < count:
        follow = draw.random() < 0.75
        tokens.append(successor[tokens[-1]] if follow else draw.randrange(vocab_size))
    return tokens


def _rounded(expected):
    """12 digits: all that another machine's order of summation leaves unchanged."""
    shorten = lambda value: float(f"{value:.12g}") if isinstance(value, float) else value
    return {
        "steps": [{k: shorten(v) for k, v in row.items()} for row in expected["steps"]],
        "final_param_norms": {k: shorten(v) for k, v in expected["final_param_norms"].items()},
    }


def _write_json(path, content):
    path.write_text(json.dumps(content, indent=1) + "\n")


def make(case, config, settings):
    folder = HERE / case
    folder.mkdir(exist_ok=True)
    count = settings["steps"] * settings["global_batch_size"] * settings["seq_length"] + 1
    tokens = array.array("H", token_stream(case, config["vocab_size"], count))
    if sys.byteorder != "little":
        tokens.byteswap()
    (folder / "tokens.bin").write_bytes(tokens.tobytes())
    _write_json(folder / "config.json", config)
    _write_json(folder / "train.json", settings)
    safetensors_file.write(folder / "model.safetensors", initial_weights(case, config))
    expected = _rounded(reference_training.train_folder(folder))
    _write_json(folder / "expected.json", expected)
    losses = [row["loss"] for row in expected["steps"]]
    num_bytes = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{case}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, {num_bytes / 1000:.0f} kB")


def check(folder, dtype):
    expected = json.loads((pathlib.Path(folder) / "expected.json").read_text())
    found = reference_training.train_folder(folder, dtype)
    relative = lambda a, b: abs(a - b) / abs(b)
    worst = {key: max(relative(row[key], want[key])
                      for row, want in zip(found["steps"], expected["steps"], strict=True))
             for key in ("loss", "grad_norm", "lr")}
    norms = expected["final_param_norms"]
    assert norms.keys() == found["final_param_norms"].keys()
    by_name = {name: relative(found["final_param_norms"][name], norms[name]) for name in norms}
    name = max(by_name, key=by_name.get)
    print(f"{folder}: largest relative difference: " +
          ", ".join(f"{key} {value:.1e}" for key, value in worst.items()) +
          f", parameter norm {by_name[name]:.1e} ({name})")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--check", nargs="+", metavar="FOLDER")
    parser.add_argument("--float32", action="store_true")
    args = parser.parse_args()
    if args.check:
        for folder in args.check:
            check(folder, torch.float32 if args.float32 else torch.float64)
    else:
        for case in args.cases or golden_cases.CASES:
            make(case, *golden_cases.CASES[case])


if __name__ == "__main__":
    main()
