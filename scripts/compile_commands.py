#!/usr/bin/env python3
"""How each source file is compiled, by the compile_commands.json of a build folder.

    compile_commands.py BUILD_FOLDER        prints a compile_commands.json of single source files

A build with TESSERA_UNITY compiles files that include several source files: each of these gets a
command of its own here.
"""

import json
import pathlib
import re
import sys

_UNITY_SOURCE = re.compile(r"/Unity/unity_\w+\.cxx$")
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def _split(entry):
    """The entries of the source files that a file of a unity build includes."""
    joined = entry["file"]
    text = pathlib.Path(entry["directory"], joined).read_text(encoding="utf-8")
    for number, source in enumerate(_INCLUDE.findall(text)):
        single = {**entry, "file": source, "leads": number == 0}
        if "arguments" in entry:
            single["arguments"] = [source if argument == joined else argument
                                   for argument in entry["arguments"]]
        else:
            single["command"] = entry["command"].replace(joined, source)
        yield single


def load(build):
    """The entries of compile_commands.json, one a source file. "leads" is false where another file
    stands before it in what the compiler reads."""
    entries = []
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        if _UNITY_SOURCE.search(entry["file"]):
            entries += _split(entry)
        else:
            entries.append({**entry, "leads": True})
    return entries


def main():
    entries = load(pathlib.Path(sys.argv[1]).resolve())
    for entry in entries:
        del entry["leads"]
    json.dump(entries, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
