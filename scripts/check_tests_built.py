#!/usr/bin/env python3
"""Checks that no test rots unbuilt: every *_test.cc is compiled, and no test is switched off.

    check_tests_built.py BUILD_FOLDER [ROOT]
"""

import pathlib
import re
import sys

import compile_commands
import source_tree

SWITCHED_OFF = re.compile(r"\b(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*(\w+)\s*,\s*(DISABLED_\w+)"
                          r"|#\s*if\s+0\b")


def find_problems(build, root):
    compiled = {pathlib.Path(entry["directory"], entry["file"]).resolve()
                for entry in compile_commands.load(build)}
    tests = [path for path in source_tree.code_files(root)
             if path.parts[0] == "tests" and path.name.endswith("_test.cc")]
    # The emulation is for some processors, and not for every sanitizer: all of it or nothing.
    emulated = {path for path in tests if path.parts[1] == "cuda_emulation"}
    if not any((root / path).resolve() in compiled for path in emulated):
        tests = [path for path in tests if path not in emulated]
    problems = [f"{path}: in no target: is its folder listed in tests/CMakeLists.txt?"
                for path in tests if (root / path).resolve() not in compiled]
    for path in tests:
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            if SWITCHED_OFF.search(line):
                problems.append(f"{path}:{number}: a test that is switched off: {line.strip()}")
    return problems, len(tests)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    root = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else source_tree.default_root()
    problems, num_files = find_problems(build, root)
    return source_tree.report("check_tests_built", problems, num_files)


if __name__ == "__main__":
    sys.exit(main())
