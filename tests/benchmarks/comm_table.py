"""Tables of what scripts/bench_comm.sh measured: comm_table.py ROWS

A row has library, ranks, operation, bytes and seconds, tab-separated; several rows of the same are
rounds. Prints, in Markdown, the median over the rounds: time, rate, and plain Gloo's time over it.
"""

import collections
import statistics
import sys

LIBRARIES = {
    "thread": "threads",
    "shm": "shared memory",
    "tcp": "our TCP",
    "gloo": "Gloo",
    "mpi": "MPI",
}
LEAST_RATED_BYTES = 256 << 10  # what takes less is a matter of latency


def size_text(num_bytes):
    return f"{num_bytes >> 20} MB" if num_bytes >= 1 << 20 else f"{num_bytes >> 10} KB"


def time_text(seconds):
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def cell(num_bytes, seconds, gloo_s):
    ratio = "" if gloo_s is None else f", {gloo_s / seconds:.1f}x"
    rate = f", {num_bytes / seconds * 1e-9:.1f} GB/s" if num_bytes >= LEAST_RATED_BYTES else ""
    return time_text(seconds) + rate + ratio


def main():
    times = collections.defaultdict(list)
    with open(sys.argv[1], encoding="utf-8") as rows:
        for row in rows:
            library, ranks, operation, num_bytes, seconds = row.rstrip("\n").split("\t")
            times[int(ranks), operation, int(num_bytes), library].append(float(seconds))
    medians = {key: statistics.median(each) for key, each in times.items()}
    libraries = [name for name in LIBRARIES if any(key[3] == name for key in medians)]
    for ranks in sorted({key[0] for key in medians}):
        print(f"\n{ranks} ranks:\n")
        print("| | | " + " | ".join(LIBRARIES[name] for name in libraries) + " |")
        print("|---|---|" + "---|" * len(libraries))
        for operation, num_bytes in dict.fromkeys(key[1:3] for key in medians if key[0] == ranks):
            gloo_s = medians.get((ranks, operation, num_bytes, "gloo"))
            cells = []
            for name in libraries:
                seconds = medians.get((ranks, operation, num_bytes, name))
                base_s = None if name == "gloo" else gloo_s
                cells.append("" if seconds is None else cell(num_bytes, seconds, base_s))
            print(f"| {operation} | {size_text(num_bytes)} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
