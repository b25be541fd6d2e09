#!/usr/bin/env python3
"""Reads what `tessera train --tensorboard DIR` wrote with TensorBoard's own reader.

    python3 -m venv venv && venv/bin/pip install tensorboard
    venv/bin/python scripts/read_tensorboard.py DIR [METRICS]

Prints every scalar's number of steps, first and last value. With the file of the same run's
--metrics it also compares: exit code 1 where a loss, learning rate or validation loss differs.
"""
import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

TAGS = {"train/loss": "loss", "train/lr": "lr", "train/grad_norm": "grad_norm",
        "validation/loss": "validation_loss"}
FLOAT_PRECISION = 1e-6  # scalars are stored as float32


def read_scalars(folder):
    """Returns {tag: {step: value}}."""
    accumulator = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    tags = accumulator.Tags()
    scalars = {tag: {event.step: event.value for event in accumulator.Scalars(tag)}
               for tag in tags["scalars"]}
    for tag in tags["tensors"]:
        scalars[tag] = {event.step: float(tensor_util.make_ndarray(event.tensor_proto))
                        for event in accumulator.Tensors(tag)}
    return scalars


def differences(scalars, rows):
    """Yields a sentence for each value that is not that of the metrics."""
    for tag, key in TAGS.items():
        expected = {row["step"]: row[key] for row in rows if key in row}
        found = scalars.get(tag, {})
        if set(found) != set(expected):
            yield f"{tag}: {len(found)} steps, expected {len(expected)}"
        for step in set(found) & set(expected):
            if abs(found[step] - expected[step]) > FLOAT_PRECISION * max(1, abs(expected[step])):
                yield f"{tag}, step {step}: {found[step]}, expected {expected[step]}"


def main():
    """Reads the folder on the command line."""
    scalars = read_scalars(sys.argv[1])
    for tag, values in sorted(scalars.items()):
        steps = sorted(values)
        print(f"{tag:32s} {len(steps):6d} steps  {values[steps[0]]:.6g} -> {values[steps[-1]]:.6g}")
    if len(sys.argv) < 3:
        return 0
    with open(sys.argv[2], encoding="utf-8") as file:
        wrong = list(differences(scalars, [json.loads(line) for line in file]))
    for sentence in wrong:
        print(sentence)
    print("differs from" if wrong else "agrees with", sys.argv[2])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
