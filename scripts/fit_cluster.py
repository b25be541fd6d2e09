#!/usr/bin/env python3
"""Fits numbers of cluster files to measured step times.

    fit_cluster.py --tessera build/bin/tessera --rows FILE.jsonl --cluster configs/clusters/X.json
                   [--cluster configs/clusters/Y.json ...] --fit POINTER=LOW:HIGH [--fit ...]
                   [--select SUBSTRING ...] [--weight SOURCE=W ...] [--hold-out] [--write]

The named numbers are varied together in all the named files (a device that several clusters share
has the same numbers in each), `tessera validate` prices the rows, and the mean of |log(predicted /
measured)| over the sources is minimised: sources count alike however many rows they have (--weight
changes that; a source is what stands before the second "/" of a row's id), and absolute logarithms
keep single odd rows from deciding. The search is Nelder-Mead inside the given bounds, started from
the files' values.

POINTER is a path into the cluster file (/device/kernels/tile_load_cost); several joined by "+" are
varied in step, each keeping its ratio to the first. A table of one pair is its efficiency.
--hold-out refits with each source left out in turn and prints the error on the one left out.
--write puts the fitted numbers into the files, whose text stays as it is otherwise.

Needs numpy and scipy (Debian: python3-numpy python3-scipy).
"""

import argparse
import collections
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy
from scipy import optimize

NUMBER = re.compile(r'\s*:\s*(?:\{\s*"value"\s*:\s*)?(\[\[.*?\]\]|[-+0-9.eE]+)')


def find_number(text, pointer):
    """The match of the number (group 1) that `pointer` names in the text of a cluster file."""
    position = 0
    for part in pointer.strip("/").split("/"):
        found = text.find(f'"{part}":', position)
        if found < 0:
            sys.exit(f"{pointer}: no {part}")
        position = found + len(part) + 2
    match = NUMBER.match(text, position)
    if match is None:
        sys.exit(f"{pointer}: not a number")
    return match


def read_number(text, pointer):
    value = json.loads(find_number(text, pointer).group(1))
    return value[0][1] if isinstance(value, list) else float(value)


def put_number(text, pointer, value):
    match = find_number(text, pointer)
    old = json.loads(match.group(1))
    new = f"{value:.4g}".replace("e+", "e")
    if isinstance(old, list):
        new = json.dumps([[old[0][0], float(new)]])
    return text[: match.start(1)] + new + text[match.end(1) :]


class Parameter:
    """A fitted number: pointers varied in step, between bounds."""

    def __init__(self, argument):
        pointers, bounds = argument.split("=")
        self.pointers = pointers.split("+")
        self.low, self.high = (float(bound) for bound in bounds.split(":"))

    def to_free(self, value):
        span = self.high - self.low
        share = min(max((value - self.low) / span, 0.01), 0.99)
        return math.log(share / (1 - share))

    def from_free(self, free):
        return self.low + (self.high - self.low) / (1 + math.exp(-free))


class Fit:
    def __init__(self, options):
        self.options = options
        self.parameters = [Parameter(argument) for argument in options.fit]
        self.texts = {path: open(path).read() for path in options.cluster}
        configs = os.path.dirname(os.path.dirname(os.path.abspath(options.cluster[0])))
        self.folder = tempfile.mkdtemp(prefix="fit_cluster_")
        shutil.copytree(configs, os.path.join(self.folder, "configs"))
        self.rows = os.path.join(self.folder, "rows.jsonl")
        self.write_rows()
        self.weights = dict(item.split("=") for item in options.weight)
        self.ratios = []
        first = next(iter(self.texts.values()))
        for parameter in self.parameters:
            values = [read_number(first, pointer) for pointer in parameter.pointers]
            self.ratios.append([value / values[0] for value in values])

    def write_rows(self):
        with open(self.options.rows) as source, open(self.rows, "w") as target:
            for line in source:
                row = json.loads(line)
                name = row["id"]
                if self.options.select and not any(s in name for s in self.options.select):
                    continue
                if any(s in name for s in self.options.drop):
                    continue
                if row.get("use_for", {}).get("time", True):
                    target.write(line)

    def texts_at(self, free):
        texts = dict(self.texts)
        for parameter, ratios, x in zip(self.parameters, self.ratios, free):
            for pointer, ratio in zip(parameter.pointers, ratios):
                for path in texts:
                    value = parameter.from_free(x) * ratio
                    texts[path] = put_number(texts[path], pointer, value)
        return texts

    def errors(self, free):
        """|log(predicted / measured)| of every row, by source."""
        for path, text in self.texts_at(free).items():
            with open(os.path.join(self.folder, "configs/clusters", os.path.basename(path)), "w") as f:
                f.write(text)
        command = [self.options.tessera, "validate", "--rows", self.rows, "--format", "json"]
        environment = dict(os.environ, TESSERA_CONFIGS=os.path.join(self.folder, "configs"))
        result = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        errors = collections.defaultdict(list)
        for row in json.loads(result.stdout)["rows"]:
            error = row.get("step_time_error")
            if error is None or error <= -1:
                continue
            errors["/".join(row["id"].split("/")[:2])].append(abs(math.log(1 + error)))
        return errors

    def cost(self, free, left_out=None):
        errors = self.errors(free)
        weighted = total = 0
        for source, values in errors.items():
            if source == left_out:
                continue
            # A few rows say less than many, but not in proportion.
            weight = float(self.weights.get(source, 1)) * math.sqrt(min(len(values), 25))
            weighted += weight * float(numpy.mean(values))
            total += weight
        return weighted / total

    def run(self, start, left_out=None):
        step = 0.4
        best = numpy.array(start)
        for _ in range(2):
            corners = numpy.vstack([best] + [best + step * row for row in numpy.eye(len(best))])
            result = optimize.minimize(
                self.cost,
                best,
                args=(left_out,),
                method="Nelder-Mead",
                options={
                    "maxfev": self.options.evaluations // 2,
                    "initial_simplex": corners,
                    "xatol": 1e-3,
                    "fatol": 1e-5,
                },
            )
            best, step = result.x, -0.3
        return best

    def report(self, free):
        for source, values in sorted(self.errors(free).items()):
            print(f"  {source:32} {len(values):4} rows  mean {100 * numpy.mean(values):5.1f} %")
        print(f"  cost {100 * self.cost(free):.2f} %")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tessera", default="build/bin/tessera")
    parser.add_argument("--rows", required=True)
    parser.add_argument("--cluster", action="append", required=True)
    parser.add_argument("--fit", action="append", required=True, metavar="POINTER=LOW:HIGH")
    parser.add_argument("--select", action="append", default=[], help="keep rows whose id holds this")
    parser.add_argument("--drop", action="append", default=[], help="leave out rows whose id holds this")
    parser.add_argument("--weight", action="append", default=[], metavar="SOURCE=W")
    parser.add_argument("--evaluations", type=int, default=300)
    parser.add_argument("--hold-out", action="store_true")
    parser.add_argument("--write", action="store_true")
    fit = Fit(parser.parse_args())
    first = next(iter(fit.texts.values()))
    start = [p.to_free(read_number(first, p.pointers[0])) for p in fit.parameters]
    print("before")
    fit.report(start)
    best = fit.run(start)
    print("after")
    fit.report(best)
    for parameter, x in zip(fit.parameters, best):
        print(f"  {parameter.pointers[0]} = {parameter.from_free(x):.4g}")
    if fit.options.hold_out:
        print("held out")
        for source in sorted(fit.errors(best)):
            errors = fit.errors(fit.run(best, left_out=source))[source]
            print(f"  {source:32} mean {100 * numpy.mean(errors):5.1f} %")
    if fit.options.write:
        for path, text in fit.texts_at(best).items():
            with open(path, "w") as target:
                target.write(text)
    shutil.rmtree(fit.folder)


if __name__ == "__main__":
    main()
