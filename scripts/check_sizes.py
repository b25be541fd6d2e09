#!/usr/bin/env python3
"""Checks that files and functions stay small enough to read.

    check_sizes.py [ROOT]

Files of C++: 400 lines. Functions: 60 lines from the signature to the closing brace; the rows of a
switch that only names values (`case A: return "a";`) do not count, and tests are exempt (a table of
expected values may be long). Functions are found by their layout, which clang-format fixes: they open
on a line that starts at column 0 or 2 and close with a brace in the same column.
"""

import pathlib
import re
import sys

import source_tree

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

NO_FUNCTION = re.compile(r"\s*(namespace|class|struct|enum|union|extern|public|private|protected|"
                         r"#|//|\}|using|if|for|while|switch|do|else|case|default)\b|\s*[#/}]")


def counted_lines(block):
    """Lines of a function, less the rows of naming switches."""
    text = re.sub(r"^ *case [\w:]+:(\s+return [^;(]+;)?\n", "", "\n".join(block) + "\n",
                  flags=re.MULTILINE)
    return text.count("\n")


def functions(lines):
    """Yields (first line, lines counted) of each function, from its signature on."""
    start = None  # of the block being followed
    signature = None  # of the statement that may become a function
    for number, line in enumerate(lines, 1):
        indent = len(line) - len(line.lstrip())
        if start is not None:
            if line.startswith(" " * start[1] + "}") and indent == start[1]:
                yield start[0], counted_lines(lines[start[0] - 1 : number])
                start = None
            continue
        if not line.strip() or NO_FUNCTION.match(line):
            signature = None
            continue
        if indent in (0, 2) and signature is None:
            signature = (number, indent)
        if line.endswith("{") and not line.endswith("= {") and signature is not None:
            if "(" in "".join(lines[signature[0] - 1 : number]):
                start = signature
            signature = None
        elif line.endswith((";", "}")):
            signature = None


def find_problems(root):
    problems = []
    files = source_tree.code_files(root)
    for path in files:
        lines = (root / path).read_text(encoding="utf-8").splitlines()
        if len(lines) > MAX_FILE_LINES:
            problems.append(f"{path}: {len(lines)} lines, at most {MAX_FILE_LINES}: split by concern")
        if path.parts[0] == "tests":
            continue
        for first, count in functions(lines):
            if count > MAX_FUNCTION_LINES:
                problems.append(f"{path}:{first}: a function of {count} lines, at most "
                                f"{MAX_FUNCTION_LINES}")
    return problems, len(files)


def main():
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else source_tree.default_root()
    problems, num_files = find_problems(root)
    return source_tree.report("check_sizes", problems, num_files)


if __name__ == "__main__":
    sys.exit(main())
