#!/usr/bin/env python3
"""Lets faults strike one of four processes in one operation after the other, and checks what the
other ranks make of it.

    fault_matrix.py BIN_FOLDER [--faults killed,stopped] [--operations barrier,save] [--runs 3]
                    [--diagonal] [--grace 2] [--keep FOLDER]

BIN_FOLDER holds the built `fault_driver`. Each run of a cell takes another rank as its victim: rank
2 before its call, ranks 0 and 3 within it. All others must end within the timeout (where the fault
shows at once: without it) and --grace seconds, with exit code 75, one line that names rank, group,
step, operation and culprit and says how, and a flight record; no process may be left. After a fault
of a save the run goes on from the newest checkpoint, which is of the step before at least, to the
losses of an undisturbed run, and leaves nothing half-written. --diagonal takes one run of each kind
of fault, with another operation for each.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

NUM_RANKS = 4
FAULT_STEP = 4  # of tests/faults/fault_training.h
TIMEOUT_S = 2
INIT_TIMEOUT_S = 3
OPERATIONS = ("all_reduce", "reduce_scatter", "send_recv", "barrier", "save")
RUNS = ({"victim": 2, "moment": "before", "meeting": "port"},
        {"victim": 0, "moment": "within", "meeting": "port"},
        {"victim": 3, "moment": "within", "meeting": "file"})
EXIT_PEER_LOST = 75
EXIT_FAILURE = 1

GONE = "rank {victim}( on [^ ]+)? is gone: its process has ended"
OUT_OF_STEP = ("rank {victim} has not (arrived|posted its end)|differs?: .*rank {victim} called|"
               "(to|from) rank {victim}, .* the two ends differ|rank {victim} of .*the two ends differ")


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of fault and what must come of it."""
    victim_code: int  # of the victim's process; None where it stays and is ended here
    says: str         # in the line of each other rank
    waits_s: float = 0  # until the others can know
    code: int = EXIT_PEER_LOST  # of the others
    only: tuple = OPERATIONS
    may_strike_within: bool = True
    names_operation: bool = True


FAULTS = {
    "killed": Kind(-signal.SIGKILL, GONE),
    "stopped": Kind(None, "rank {victim} does not respond: stopped, or cut off", TIMEOUT_S),
    "exit_0": Kind(0, GONE),
    "exit_3": Kind(3, GONE),
    "segfault": Kind(-signal.SIGSEGV, GONE),
    "exception": Kind(EXIT_FAILURE, "rank {victim} failed: a fault of the test"),
    "skips": Kind(EXIT_PEER_LOST, OUT_OF_STEP, TIMEOUT_S, may_strike_within=False),
    "other_call": Kind(EXIT_PEER_LOST, OUT_OF_STEP, TIMEOUT_S, may_strike_within=False),
    "cut_off": Kind(EXIT_PEER_LOST, GONE + "|rank {victim} .*connection to rank . has broken|"
                                           "connection to rank {victim} has broken"),
    "never_arrived": Kind(None, "rank {victim} of 4 did not come|rank 0 .*does not answer|"
                                "waited for rank 0 .* in vain", INIT_TIMEOUT_S,
                          may_strike_within=False, names_operation=False),
    "full_disk": Kind(EXIT_FAILURE, "failed on rank {victim}: .*File too large", 0, EXIT_FAILURE,
                      only=("save",), may_strike_within=False, names_operation=False),
    "hung_disk": Kind(None, "rank {victim} still writes after .*disk", TIMEOUT_S, EXIT_FAILURE,
                      only=("save",), may_strike_within=False, names_operation=False),
    "slow": Kind(0, "", TIMEOUT_S, 0, may_strike_within=False),
}
OPERATION_NAMED = re.compile(r"rank \d of [\w{},-]+, step \d+: "
                             r"(\w+ #\d+|send #\d+ to rank \d|receive #\d+ from rank \d)")


def environment_of(rank, place):
    """The variables by which a launcher tells a process which rank it is."""
    variables = {name: value for name, value in os.environ.items()
                 if not name.startswith(("TESSERA_", "OMPI_", "PMI", "SLURM_", "MASTER_", "RANK"))}
    variables.update(place)
    variables["TESSERA_RANK"] = str(rank)
    variables["TESSERA_NUM_RANKS"] = str(NUM_RANKS)
    return variables


def meeting_place(kind, folder):
    if kind == "file":
        return {"TESSERA_MEETING_FILE": str(folder / "meeting")}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}


@dataclasses.dataclass
class End:
    """How one rank's process ended."""
    code: int = None
    time_s: float = None  # of the monotonic clock
    said: str = ""


class Ranks:
    """The processes of one run."""

    def __init__(self, driver, words, folder, meeting, absent=None):
        place = meeting_place(meeting, folder)
        self.ends = {}
        self.processes = {}
        for rank in range(NUM_RANKS):
            if rank == absent:
                continue
            self.processes[rank] = subprocess.Popen(
                [str(driver), *words, str(folder)], env=environment_of(rank, place), cwd=folder,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                text=True)
        self.start_s = time.monotonic()

    def wait(self, ranks, limit_s):
        """Until all of `ranks` have ended, at most so long."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            for rank in ranks:
                if rank not in self.ends and self.processes[rank].poll() is not None:
                    self.ends[rank] = End(self.processes[rank].returncode, time.monotonic())
            if all(rank in self.ends for rank in ranks):
                return
            time.sleep(0.005)

    def finish(self):
        """Ends what is left; returns which ranks that were."""
        left = [rank for rank, process in self.processes.items() if process.poll() is None]
        for rank in left:
            self.processes[rank].kill()
        for rank, process in self.processes.items():
            _, said = process.communicate()
            self.ends.setdefault(rank, End()).said = said
        return left


class Matrix:
    def __init__(self, bin_folder, folder, grace_s):
        self.driver = bin_folder.resolve() / "fault_driver"
        self.folder = folder
        self.grace_s = grace_s
        self.latest_s = 0  # of any survivor, beyond what it had to wait
        self.reference = self.undisturbed_losses()

    def run_ranks(self, operation, fault, run, folder):
        words = [operation, fault, str(run["victim"]), run["moment"], str(TIMEOUT_S),
                 str(INIT_TIMEOUT_S)]
        is_absent = fault == "never_arrived"
        if is_absent:
            words[1] = "none"
        return Ranks(self.driver, words, folder, run["meeting"],
                     absent=run["victim"] if is_absent else None)

    def new_folder(self, name):
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "tokens.u8").write_bytes(bytes((i * i // 7) % 256 for i in range(4096)))
        return folder

    def train_undisturbed(self, folder):
        """Problems of a training that no fault strikes."""
        ranks = self.run_ranks("save", "none", RUNS[0], folder)
        ranks.wait(range(NUM_RANKS), 60)
        ranks.finish()
        return [f"undisturbed rank {rank}: exit code {end.code}: {end.said}"
                for rank, end in ranks.ends.items() if end.code != 0]

    def undisturbed_losses(self):
        folder = self.new_folder("undisturbed")
        problems = self.train_undisturbed(folder)
        if problems:
            sys.exit("\n".join(problems))
        return (folder / "losses.txt").read_text().splitlines()

    def try_cell(self, fault, operation, number):
        """Returns the problems of one run of a cell."""
        kind = FAULTS[fault]
        run = dict(RUNS[number % len(RUNS)])
        if not kind.may_strike_within or (operation == "save" and fault == "exception"):
            run["moment"] = "before"
        folder = self.new_folder(f"{fault}-{operation}-{number}")
        ranks = self.run_ranks(operation, fault, run, folder)
        survivors = [rank for rank in range(NUM_RANKS) if rank != run["victim"]]
        ranks.wait(survivors, 60)
        if run["victim"] in ranks.processes:
            ranks.wait([run["victim"]], 0 if kind.victim_code is None else 5)
        left = ranks.finish()
        problems = self.judge(kind, fault, run, ranks, left, folder)
        if operation == "save" and fault != "slow":
            problems += self.judge_checkpoints(fault, folder)
        if not problems:
            shutil.rmtree(folder)
        return problems

    def judge(self, kind, fault, run, ranks, left, folder):
        problems = []
        victim = run["victim"]
        expected_left = [victim] if fault in ("stopped", "hung_disk") else []
        if left != expected_left:
            problems.append(f"ranks {left} had to be ended")
        if kind.victim_code is not None and ranks.ends[victim].code != kind.victim_code:
            end = ranks.ends[victim]
            problems.append(f"victim: exit code {end.code}, not {kind.victim_code}: {end.said}")
        since_s = ranks.start_s
        if fault != "never_arrived":
            try:
                since_s = float((folder / "fault_time").read_text())
            except FileNotFoundError:
                return problems + ["the fault has not struck"]
        for rank, end in ranks.ends.items():
            if rank != victim:
                problems += self.judge_survivor(kind, victim, rank, end, since_s, folder)
        return problems

    def judge_survivor(self, kind, victim, rank, end, since_s, folder):
        if end.code != kind.code:
            return [f"rank {rank}: exit code {end.code}: {end.said}"]
        if kind.code == 0:
            return []
        problems = []
        late_s = end.time_s - since_s - kind.waits_s
        self.latest_s = max(self.latest_s, late_s)
        if late_s > self.grace_s:
            problems.append(f"rank {rank}: ended {late_s:.1f} s after it had to know")
        lines = end.said.splitlines()
        if len(lines) != 1 or not lines[0].startswith("tessera: error: "):
            problems.append(f"rank {rank}: said {end.said!r}")
        if not re.search(kind.says.replace("{victim}", str(victim)), end.said):
            problems.append(f"rank {rank}: does not name the culprit: {end.said}")
        if not kind.names_operation:
            return problems
        named = OPERATION_NAMED.search(end.said)
        if not named or not end.said.startswith(f"tessera: error: rank {rank} of "):
            problems.append(f"rank {rank}: does not say what it did: {end.said}")
        record = folder / f"flight-record-rank-{rank}.txt"
        if not record.exists() or len(record.read_text().splitlines()) < FAULT_STEP:
            problems.append(f"rank {rank}: no flight record")
        return problems

    def judge_checkpoints(self, fault, folder):
        losses = folder / "losses.txt"
        before = len(losses.read_text().splitlines()) if losses.exists() else 0
        problems = self.train_undisturbed(folder)
        resumed = losses.read_text().splitlines()[before:]
        if not resumed or resumed != self.reference[len(self.reference) - len(resumed):]:
            problems.append(f"the curve is another: {resumed}")
        first_step = len(self.reference) - len(resumed) + 1
        if fault != "never_arrived" and first_step < FAULT_STEP:
            problems.append(f"went on from step {first_step - 1}: the newest checkpoint is lost")
        torn = [entry.name for entry in (folder / "save").iterdir() if ".tmp-" in entry.name]
        if torn:
            problems.append(f"left half-written: {torn}")
        return problems


def cells(options):
    """(fault, operation, numbers of runs) of what is asked for."""
    faults = options.faults.split(",") if options.faults else list(FAULTS)
    operations = options.operations.split(",") if options.operations else list(OPERATIONS)
    for row, fault in enumerate(faults):
        possible = [operation for operation in operations if operation in FAULTS[fault].only]
        if options.diagonal:
            yield fault, possible[row % len(possible)], [row % len(RUNS)]
            continue
        for operation in possible:
            yield fault, operation, range(options.runs)


def print_table(results):
    print(f"{'':14}" + "".join(f"{operation:>16}" for operation in OPERATIONS))
    for fault in FAULTS:
        row = [results.get((fault, operation)) for operation in OPERATIONS]
        if any(row):
            texts = [f"{cell[0]}/{cell[1]}" if cell else "-" for cell in row]
            print(f"{fault:14}" + "".join(f"{text:>16}" for text in texts))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_folder", type=pathlib.Path)
    parser.add_argument("--faults")
    parser.add_argument("--operations")
    parser.add_argument("--runs", type=int, default=len(RUNS))
    parser.add_argument("--diagonal", action="store_true")
    parser.add_argument("--grace", type=float, default=2)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for what failed runs leave")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        matrix = Matrix(options.bin_folder, options.keep or pathlib.Path(temporary), options.grace)
        results = {}
        for fault, operation, numbers in cells(options):
            num_good = 0
            for number in numbers:
                problems = matrix.try_cell(fault, operation, number)
                num_good += not problems
                for problem in problems:
                    print(f"fault_matrix: {fault}, {operation}, run {number}: {problem}", flush=True)
            results[fault, operation] = (num_good, len(numbers))
    print_table(results)
    num_good = sum(good for good, _ in results.values())
    num_runs = sum(runs for _, runs in results.values())
    print(f"fault_matrix: {num_good} of {num_runs} runs as they must be; the slowest rank ended "
          f"{matrix.latest_s:.2f} s after it had to know")
    return 0 if num_good == num_runs else 1


if __name__ == "__main__":
    sys.exit(main())
