#!/usr/bin/env python3
"""Checks that clang-format would change nothing.

    check_formatting.py [ROOT]

Exit code 77 (skipped) where clang-format is missing or of another version than the one whose output
the tree has: versions differ in details.
"""

import pathlib
import re
import shutil
import subprocess
import sys

import source_tree

MAJOR_VERSION = "14"  # Debian 12's
SKIPPED = 77


def find_clang_format():
    """The program's path, or a sentence that says why there is none."""
    for name in (f"clang-format-{MAJOR_VERSION}", "clang-format"):
        path = shutil.which(name)
        if path is None:
            continue
        version = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        found = re.search(r"version (\d+)", version)
        if found and found[1] == MAJOR_VERSION:
            return path, None
    return None, f"no clang-format {MAJOR_VERSION} (scripts/install_deps.sh --dev installs it)"


def find_problems(clang_format, root):
    files = [path.as_posix() for path in source_tree.code_files(root)]
    if not files:
        return [], 0
    done = subprocess.run([clang_format, "--dry-run", "--ferror-limit=1", *files], cwd=root,
                          capture_output=True, text=True)
    places = re.findall(r"^(\S+?):(\d+):\d+: warning: code should be clang-formatted", done.stderr,
                        re.MULTILINE)
    first = {}
    for path, line in places:
        first.setdefault(path, line)
    problems = [f"{path}:{line}: not formatted: run clang-format -i {path}"
                for path, line in first.items()]
    if done.returncode != 0 and not problems:
        problems = [done.stderr]
    return problems, len(files)


def main():
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else source_tree.default_root()
    clang_format, reason = find_clang_format()
    if clang_format is None:
        print(f"check_formatting: skipped: {reason}")
        return SKIPPED
    problems, num_files = find_problems(clang_format, root)
    return source_tree.report("check_formatting", problems, num_files)


if __name__ == "__main__":
    sys.exit(main())
