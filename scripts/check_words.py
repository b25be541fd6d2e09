#!/usr/bin/env python3
"""Checks that no file holds a path of the machine it was written on.

    check_words.py [ROOT]

The tree must build and pass its tests wherever it is cloned.
"""

import pathlib
import re
import sys

import source_tree

# The brackets keep this file from finding itself.
FORBIDDEN = [
    re.compile(r"(?<![\w.])/[w]ork\b(?!\w)"),
    re.compile(r"(?<![\w.])/[r]oot/"),
    re.compile(r"(?<![\w.])/[h]ome/\w"),
    re.compile(r"\.\./[s]hared\b"),
]


def find_problems(root):
    problems = []
    num_files = 0
    for path in source_tree.all_files(root):
        data = path.read_bytes()
        if b"\0" in data:  # weights and tokens
            continue
        num_files += 1
        for number, line in enumerate(data.decode("utf-8", errors="replace").splitlines(), 1):
            for pattern in FORBIDDEN:
                found = pattern.search(line)
                if found:
                    problems.append(f"{path.relative_to(root)}:{number}: {found[0]}: a path that "
                                    "exists on one machine only")
    return problems, num_files


def main():
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else source_tree.default_root()
    problems, num_files = find_problems(root)
    return source_tree.report("check_words", problems, num_files)


if __name__ == "__main__":
    sys.exit(main())
