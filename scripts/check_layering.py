#!/usr/bin/env python3
"""Checks the #include lines: which folder may use which other folder and which outside library.

    check_layering.py [ROOT]

Also: includes are whole paths from the root, every header starts with `#pragma once`, and nothing
asks for CUDA or NCCL in an `#if` outside the folders made for them.
"""

import fnmatch
import pathlib
import re
import sys

import source_tree

# A folder may include itself and these. The longest matching folder counts.
ALLOWED_FOLDERS = {
    "cost_model/base": [],
    "cost_model/spec": ["cost_model/base"],
    "cost_model": ["cost_model/spec", "cost_model/base"],
    "planner": ["cost_model", "cost_model/spec", "cost_model/base"],
    "planner/cli": ["planner", "cost_model", "cost_model/spec", "cost_model/base"],
    "planner/app": ["planner/cli", "cost_model/base"],
    "kernels": ["cost_model/base"],
    "kernels/cpu": ["kernels", "cost_model/base"],
    "kernels/cuda": ["kernels", "cost_model/base"],
    "engine": ["kernels", "cost_model/spec", "cost_model/base"],
    "engine/cli": ["engine", "kernels", "cost_model/spec", "cost_model/base"],
    "engine/app": ["engine/cli", "cost_model/base"],
    "tests": ["cost_model/base", "cost_model/spec", "cost_model", "planner", "planner/cli", "kernels",
              "kernels/cpu", "kernels/cuda", "engine", "engine/cli"],
}
# Files that may include further folders.
ALLOWED_FILES = {
    "engine/comm/nccl_*": ["kernels/cuda"],
    "engine/device/cuda_*": ["kernels/cuda"],
}

# Outside libraries: include pattern, and the files that may use it.
OUTSIDE_LIBRARIES = {
    "nlohmann/json": (r"nlohmann/.*", [
        "cost_model/spec/*_json.*", "cost_model/spec/*_yaml.*", "planner/*_json.*", "planner/cli/*",
        "engine/checkpoint/*_json.*", "engine/data/*_json.*", "engine/train/*_json.*", "engine/cli/*",
        "tests/*"]),
    "yaml-cpp": (r"yaml-cpp/.*", ["cost_model/spec/*_yaml.*", "cost_model/spec/*_json.*", "tests/*"]),
    "CLI11": (r"CLI/.*", ["planner/cli/*", "planner/app/*", "engine/cli/*", "engine/app/*"]),
    "PCRE2": (r"pcre2\.h", ["engine/data/regex.cc"]),
    "SentencePiece": (r"sentencepiece_processor\.h", ["engine/data/sentencepiece_tokenizer.cc"]),
    "BLAS": (r"(openblas/)?(cblas|openblas_config)\.h",
             ["kernels/cpu/*", "kernels/machine_probe*", "tests/*"]),
    "Eigen": (r"Eigen/.*", ["cost_model/*", "kernels/cpu/*", "tests/*"]),
    "vector intrinsics": (r"\w*mmintrin\.h|arm_neon\.h", ["kernels/cpu/*"]),
    "NCCL": (r"nccl\.h", ["engine/comm/nccl_*", "engine/device/cuda_*", "tests/cuda_emulation/*"]),
    "CUDA": (r"(cuda|cublas|cudnn|cooperative_groups|nv|cub/|thrust/|mma\.h|library_types\.h).*",
             ["kernels/cuda/*", "engine/comm/nccl_*", "engine/device/cuda_*",
              "tests/cuda_emulation/*"]),
    "Boost.Context": (r"boost/context/.*", ["tests/cuda_emulation/*"]),
    "the sanitizers": (r"sanitizer/.*", ["tests/cuda_emulation/*"]),
    "Gloo": (r"gloo/.*", ["engine/comm/gloo_*", "tests/benchmarks/gloo_peer.cc"]),
    "MPI": (r"mpi\.h", ["tests/benchmarks/mpi_peer.cc"]),
    "GoogleTest": (r"(gtest|gmock)/.*", ["tests/*"]),
    "Google Benchmark": (r"benchmark/.*", ["tests/benchmarks/*"]),
    "the operating system": (r"(sys|netinet|arpa|linux)/.*\.h|(unistd|fcntl|sched|pthread|signal|"
                             r"dlfcn|netdb|poll|spawn|dirent|errno|time|elf|link|cxxabi)\.h",
                             ["kernels/*", "engine/*", "planner/cli/*", "planner/app/*",
                              "cost_model/spec/file_write.*", "tests/*"]),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*(<[^>]+>|"[^"]+")')
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b.*(CUDA|NCCL)")
CONDITION_FILES = ["kernels/cuda/*", "engine/comm/nccl_*", "tests/cuda_emulation/*"]


def folder_of(path):
    """The key of ALLOWED_FOLDERS that a path belongs to, or None."""
    matches = [folder for folder in ALLOWED_FOLDERS if path.startswith(folder + "/")]
    return max(matches, key=len, default=None)


def matches_any(path, patterns):
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def check_project_include(path, target, root):
    folder, other = folder_of(path), folder_of(target)
    if other is None or not (root / target).is_file():
        return f'"{target}" is no file of the tree: write the whole path from the root'
    allowed = {folder, *ALLOWED_FOLDERS[folder]}
    for pattern, folders in ALLOWED_FILES.items():
        if fnmatch.fnmatchcase(path, pattern):
            allowed.update(folders)
    if other not in allowed:
        return f'"{target}": {folder} may not include {other}'
    return None


def check_outside_include(path, target):
    if folder_of(target) is not None:
        return f"<{target}>: files of this tree are included with quotes"
    for library, (pattern, files) in OUTSIDE_LIBRARIES.items():
        if re.fullmatch(pattern, target):
            if matches_any(path, files):
                return None
            return f"<{target}>: {library} may be used in {', '.join(files)} only"
    if re.fullmatch(r"[a-z_]+", target):  # the C++ standard library
        return None
    return f"<{target}>: unknown library: add it to scripts/check_layering.py where it is allowed"


def check_file(path, text, root):
    """Yields (line number, problem)."""
    if pathlib.PurePosixPath(path).suffix in source_tree.HEADER_SUFFIXES:
        code = [line for line in text.splitlines() if line and not line.startswith("//")]
        if not code or code[0] != "#pragma once":
            yield 1, "the first line of a header, comments apart, is `#pragma once`"
    for number, line in enumerate(text.splitlines(), 1):
        if CONDITION.match(line) and not matches_any(path, CONDITION_FILES):
            yield number, "`#if` on CUDA or NCCL: let CMake choose the file instead"
        found = INCLUDE.match(line)
        if found is None:
            continue
        target = found[1][1:-1]
        quoted = found[1].startswith('"')
        problem = (check_project_include(path, target, root) if quoted
                   else check_outside_include(path, target))
        if problem:
            yield number, problem


def find_problems(root):
    """Returns (problems as printable lines, number of files read)."""
    problems = []
    files = source_tree.code_files(root)
    for file in files:
        path = file.as_posix()
        text = (root / file).read_text(encoding="utf-8")
        problems += [f"{path}:{number}: {problem}"
                     for number, problem in check_file(path, text, root)]
    return problems, len(files)


def main():
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else source_tree.default_root()
    problems, num_files = find_problems(root)
    return source_tree.report("check_layering", problems, num_files)


if __name__ == "__main__":
    sys.exit(main())
