"""The files of the source tree, for the check_*.py scripts."""

import pathlib

CODE_FOLDERS = ("cost_model", "planner", "kernels", "engine", "tests")
CODE_SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
HEADER_SUFFIXES = {".h", ".cuh"}
_IGNORED_FOLDERS = {".git", ".venv", ".cache", "__pycache__", "build", "quickstart_out"}


def default_root():
    return pathlib.Path(__file__).resolve().parent.parent


def all_files(root):
    """Every file below `root` but those of build folders and version control, sorted."""
    found = []
    for entry in sorted(pathlib.Path(root).iterdir()):
        if entry.is_dir():
            if entry.name not in _IGNORED_FOLDERS:
                found += all_files(entry)
        elif entry.is_file():
            found.append(entry)
    return found


def code_files(root):
    """C++ and CUDA files of the code folders, as paths relative to `root`."""
    found = []
    for folder in CODE_FOLDERS:
        if (root / folder).is_dir():
            found += [path.relative_to(root) for path in all_files(root / folder)
                      if path.suffix in CODE_SUFFIXES]
    return found


def report(name, problems, num_files):
    """Prints the problems, one a line, or one line that says all is well. Returns the exit code."""
    for problem in problems:
        print(problem)
    print(f"{name}: {num_files} files, {len(problems)} problems")
    return 1 if problems else 0
