#!/usr/bin/env python3
"""Checks that every header compiles by itself.

    check_headers.py BUILD_FOLDER [ROOT]

A header with a source file of the same name is proven by the build, as long as that file includes
it first, which is checked by reading, and is not compiled behind another one (TESSERA_UNITY). The
others are compiled alone, syntax only, with the flags that
BUILD_FOLDER/compile_commands.json has for the nearest source file that g++ or its like compiles: CUDA's
are those of the emulation. Where benchmarks or CUDA files are not built so, their headers are left out:
the library that they include may not be there.
"""

import concurrent.futures
import fnmatch
import os
import pathlib
import re
import shlex
import subprocess
import sys

import compile_commands
import source_tree

# Headers that lean on a library which may be missing: a pattern of files that are built where it is not.
OPTIONAL = ["tests/benchmarks/*", "tests/cuda_emulation/*", "kernels/cuda/*", "engine/comm/nccl_*",
            "engine/device/cuda_*"]
FIRST_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


def compiler_arguments(entry):
    """A compile command without launcher, input and output."""
    arguments = entry["arguments"] if "arguments" in entry else shlex.split(entry["command"])
    if pathlib.PurePath(arguments[0]).name in ("ccache", "sccache"):
        arguments = arguments[1:]
    kept, skip = [], False
    for argument in arguments:
        if skip or argument in ("-c", entry["file"]):
            skip = False
        elif argument in ("-o", "-MF", "-MT"):
            skip = True
        elif argument != "-MD":
            kept.append(argument)
    return kept


def nearest_entry(header, entries):
    """The compile command of the source file whose folder, then name, shares most with `header`'s."""
    shared = lambda path: (len(os.path.commonpath([header.parent, path.parent])),
                           len(os.path.commonprefix([header.name, path.name])))
    return entries[max(entries, key=shared)]


def is_left_out(header, entries):
    """Whether a pattern of OPTIONAL covers `header`, and none of the files that are built."""
    matches = lambda path, pattern: fnmatch.fnmatchcase(path.as_posix(), pattern)
    return any(matches(header, pattern) and not any(matches(path, pattern) for path in entries)
               for pattern in OPTIONAL)


def includes_first(source, header, root):
    found = FIRST_INCLUDE.search((root / source).read_text(encoding="utf-8"))
    return found is not None and found[1] == header.as_posix()


def compile_alone(header, entry, root):
    """None, or what the compiler said."""
    command = [*compiler_arguments(entry), "-fsyntax-only", "-x", "c++", "-"]
    source = f'#include "{header.as_posix()}"\n#include "{header.as_posix()}"\n'
    done = subprocess.run(command, input=source, cwd=root, capture_output=True, text=True)
    return None if done.returncode == 0 else f"{header}: does not compile alone:\n{done.stderr}"


def find_problems(build, root, jobs):
    entries = {}
    for entry in compile_commands.load(build):
        path = pathlib.Path(entry["directory"], entry["file"])
        command = entry.get("command") or " ".join(entry["arguments"])
        if path.is_relative_to(root) and not re.search(r"(^|[ /])nvcc ", command):
            entries[path.relative_to(root)] = entry
    headers = [path for path in source_tree.code_files(root)
               if path.suffix in source_tree.HEADER_SUFFIXES and not is_left_out(path, entries)]
    problems, alone = [], []
    for header in headers:
        sources = [header.with_suffix(suffix) for suffix in (".cc", ".cu")]
        source = next((path for path in sources if path in entries), None)
        if source is None or not entries[source]["leads"]:
            alone.append(header)
        if source is not None and not includes_first(source, header, root):
            problems.append(f"{source}: its own header is not its first include")
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        said = pool.map(lambda header: compile_alone(header, nearest_entry(header, entries), root),
                        alone)
        problems += [text for text in said if text is not None]
    return problems, len(headers)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    root = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else source_tree.default_root()
    problems, num_files = find_problems(build, root, jobs=min(2, os.cpu_count() or 1))
    return source_tree.report("check_headers", problems, num_files)


if __name__ == "__main__":
    sys.exit(main())
