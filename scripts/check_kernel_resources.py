#!/usr/bin/env python3
"""Lists registers and spills of every CUDA kernel, and checks that hot kernels do not spill.

    check_kernel_resources.py BUILD_FOLDER [ROOT] [--quiet]

Reads what ptxas said (nvcc -Xptxas -v), which the build keeps in *.ptxas files beside the objects.
Hot kernels are those that ROOT/kernels/cuda/hot_kernels.txt names; each must be among the compiled
ones, so that renaming a kernel does not take it off the list unseen. --quiet: problems only.
"""

import argparse
import dataclasses
import pathlib
import re
import subprocess
import sys

import source_tree

ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\w+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


@dataclasses.dataclass
class Kernel:
    symbol: str
    architecture: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    spilled_bytes: int  # stores and loads
    instance: str = ""  # readable: NormForwardKernel<true, float>

    @property
    def name(self):
        return self.instance.partition("<")[0]


def parse_report(text):
    """The kernels of one compiler run; those whose report is cut off are left out."""
    kernels = []
    entry = spills = None
    for line in text.splitlines():
        if found := ENTRY.search(line):
            entry, spills = found, None
        elif found := SPILLS.search(line):
            spills = found
        elif (found := REGISTERS.search(line)) and entry and spills:
            shared = SHARED.search(line)
            kernels.append(Kernel(entry[1], entry[2], int(found[1]), int(shared[1]) if shared else 0,
                                  int(spills[1]), int(spills[2]) + int(spills[3])))
            entry = None
    return kernels


def name_instances(kernels):
    """Fills in the readable names, by c++filt."""
    symbols = "\n".join(kernel.symbol for kernel in kernels)
    names = subprocess.run(["c++filt"], input=symbols, capture_output=True, text=True, check=True)
    for kernel, name in zip(kernels, names.stdout.splitlines()):
        name = re.sub(r"\(anonymous namespace\)::|(\w+::)+|^void |\((\w+)\)(?=\d)", "", name)
        # Without the parameters: up to the parenthesis outside of the template arguments.
        depth = 0
        for at, letter in enumerate(name):
            depth += (letter == "<") - (letter == ">")
            if letter == "(" and depth == 0:
                name = name[:at]
                break
        kernel.instance = name


def read_hot_names(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def find_problems(kernels, hot_names):
    problems = [f"{kernel.instance} of sm_{kernel.architecture}: {kernel.spilled_bytes} bytes spilled"
                for kernel in kernels if kernel.name in hot_names and kernel.spilled_bytes > 0]
    compiled = {kernel.name for kernel in kernels}
    problems += [f"{name}: in hot_kernels.txt, but no such kernel was compiled"
                 for name in hot_names if name not in compiled]
    return problems


def print_table(kernels, hot_names):
    print(f"{'sm':>5} {'registers':>9} {'shared':>7} {'stack':>6} {'spilled':>7}  kernel")
    for kernel in sorted(kernels, key=lambda kernel: (kernel.instance, kernel.architecture)):
        mark = "" if kernel.name in hot_names else "  (not hot)"
        print(f"{kernel.architecture:>5} {kernel.registers:>9} {kernel.shared_bytes:>7} "
              f"{kernel.stack_bytes:>6} {kernel.spilled_bytes:>7}  {kernel.instance}{mark}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("root", type=pathlib.Path, nargs="?", default=source_tree.default_root())
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    hot_names = read_hot_names(options.root / "kernels/cuda/hot_kernels.txt")
    reports = sorted(options.build.rglob("*.ptxas"))
    kernels = []
    for report in reports:
        kernels += parse_report(report.read_text(encoding="utf-8", errors="replace"))
    name_instances(kernels)
    if not options.quiet:
        print_table(kernels, hot_names)
    problems = find_problems(kernels, hot_names)
    for problem in problems:
        print(problem)
    print(f"check_kernel_resources: {len(kernels)} kernels in {len(reports)} reports, "
          f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
