#!/usr/bin/env python3
"""Records how good the cost model is now as the bounds that the tests hold it to.

    build/cpu-release/bin/tessera validate --format json > now.json
    scripts/record_bounds.py now.json [ROOM]

Writes configs/measurements/bounds.json: the errors of all rows, of every kind and source, of memory
by what was measured, regret and rank correlation, wrong verdicts on memory. ROOM is how much worse
a figure may get, as a share of it: 0.05 by default.
"""

import json
import math
import pathlib
import sys

BOUNDS = pathlib.Path(__file__).resolve().parent.parent / "configs" / "measurements" / "bounds.json"
# The worst row and the counts of skipped rows are judged over all rows only.
EVERYWHERE = (": step time, mean error", ": step time, median error", ": memory, mean error")
OVERALL = ("all rows: ", "memory ", "top pick: ", "fits, but ", "does not fit, but ")


def bound_of(name, value, room):
    if name.endswith("rank correlation"):
        return {"figure": name, "at_least": math.floor((value - room) * 1000) / 1000}
    if name.startswith(OVERALL) or name.endswith(EVERYWHERE):
        is_count = name.startswith(("fits, but ", "does not fit, but ")) or name.endswith("skipped")
        limit = value if is_count else math.ceil(value * (1 + room) * 1000) / 1000
        return {"figure": name, "at_most": limit}
    return None


def main():
    figures = json.loads(pathlib.Path(sys.argv[1]).read_text())["figures"]
    room = float(sys.argv[2]) if len(sys.argv) > 2 else 0.05
    bounds = [bound_of(name, value, room) for name, value in figures.items()]
    lines = ",\n".join("    " + json.dumps(bound) for bound in bounds if bound)
    source = f"tessera validate over the rows beside this file, with {room:.0%} of room"
    BOUNDS.write_text('{\n  "source": "' + source + '",\n  "bounds": [\n' + lines + "\n  ]\n}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
