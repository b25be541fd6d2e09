#!/usr/bin/env python3
"""Trains over two network namespaces that stand for two hosts, cuts the link between them on the
way, and goes on once it is there again: the loss curve must be the undisturbed one to the bit.

    two_hosts.py BIN_FOLDER [--steps 40] [--timeout 3] [--grace 2]

BIN_FOLDER holds the built `tessera`. Four processes, two on each host, are started as torchrun
starts them. When the link is cut every one must end within the timeout and --grace seconds, with
exit code 75 and one line that says why. Needs root, for `ip netns`; exits with 77 where it may not
make namespaces.
"""

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import kill_ranks

SKIPPED = 77
NUM_RANKS = 4
RANKS_A_HOST = 2
EXIT_PEER_LOST = 75
MASTER_PORT = 29400  # of the namespaces' own


class Hosts:
    """Two namespaces and the link between them; all gone when the block is left."""

    def __init__(self):
        self.names = [f"tessera-{os.getpid()}-{host}" for host in "ab"]
        self.links = ["tsa", "tsb"]
        self.addresses = ["10.77.0.1", "10.77.0.2"]

    def __enter__(self):
        try:
            for name in self.names:
                self.run("netns", "add", name)
            self.run("link", "add", self.links[0], "netns", self.names[0], "type", "veth",
                     "peer", "name", self.links[1], "netns", self.names[1])
            for host in range(2):
                self.run_on(host, "addr", "add", f"{self.addresses[host]}/24", "dev",
                            self.links[host])
                self.run_on(host, "link", "set", "lo", "up")
                self.run_on(host, "link", "set", self.links[host], "up")
        except subprocess.CalledProcessError as error:
            self.__exit__()
            print(f"two_hosts: cannot make network namespaces (needs root): {error.stderr.strip()}")
            sys.exit(SKIPPED)
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL, check=False)

    @staticmethod
    def run(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    def run_on(self, host, *words):
        self.run("-n", self.names[host], *words)

    def cut(self):
        self.run_on(1, "link", "set", self.links[1], "down")

    def mend(self):
        self.run_on(1, "link", "set", self.links[1], "up")

    def start_ranks(self, words, folder):
        ranks = []
        for rank in range(NUM_RANKS):
            host = rank // RANKS_A_HOST
            variables = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(NUM_RANKS),
                             LOCAL_RANK=str(rank % RANKS_A_HOST), LOCAL_WORLD_SIZE=str(RANKS_A_HOST),
                             MASTER_ADDR=self.addresses[0], MASTER_PORT=str(MASTER_PORT))
            command = [*words, "--interface", self.links[host]]
            ranks.append(subprocess.Popen(["ip", "netns", "exec", self.names[host], *command],
                                          cwd=folder, env=variables, stdin=subprocess.DEVNULL,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                          text=True))
        return ranks


@contextlib.contextmanager
def ending(ranks):
    try:
        yield ranks
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
            rank.wait()


def await_rows(path, number, ranks):
    deadline = time.monotonic() + 300
    while not path.exists() or path.read_text().count("\n") < number:
        if any(rank.poll() is not None for rank in ranks) or time.monotonic() > deadline:
            said = [rank.stderr.read() for rank in ranks if rank.poll() is not None]
            sys.exit(f"two_hosts: no step {number}: {said}")
        time.sleep(0.01)


def ends_of(ranks, limit_s):
    """(exit code, seconds from now, what it said) of each rank."""
    start = time.monotonic()
    seconds = [None] * len(ranks)
    while None in seconds and time.monotonic() < start + limit_s:
        for number, rank in enumerate(ranks):
            if seconds[number] is None and rank.poll() is not None:
                seconds[number] = time.monotonic() - start
        time.sleep(0.01)
    return [(rank.poll(), took_s, rank.stderr.read() if took_s is not None else "still runs")
            for rank, took_s in zip(ranks, seconds)]


def lose_link(hosts, words, folder, options):
    """Problems of a run whose link is cut."""
    problems = []
    with ending(hosts.start_ranks(words, folder)) as ranks:
        await_rows(folder / "disturbed.jsonl", 3 * options.steps // 4, ranks)  # past a checkpoint
        hosts.cut()
        limit_s = options.timeout + options.grace
        for number, (code, took_s, said) in enumerate(ends_of(ranks, limit_s + 30)):
            print(f"two_hosts: rank {number}: exit code {code} after {took_s and round(took_s, 2)} s: "
                  f"{said.strip()}")
            if code != EXIT_PEER_LOST or took_s > limit_s or len(said.splitlines()) != 1:
                problems.append(f"rank {number}: exit code {code} after {took_s} s")
            told = re.search(rf"rank {number} of [^ ]+, step \d+: .* timed out after .*; ranks? [\d, ]+ "
                             "do(es)? not respond: stopped, or cut off from the network", said)
            if not told:
                problems.append(f"rank {number} does not say what has happened")
    return problems


def train(hosts, words, folder, what):
    with ending(hosts.start_ranks(words, folder)) as ranks:
        for number, (code, _, said) in enumerate(ends_of(ranks, 300)):
            if code != 0:
                sys.exit(f"two_hosts: {what}: rank {number}: exit code {code}: {said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--timeout", type=int, default=3)
    parser.add_argument("--grace", type=float, default=2)
    options = parser.parse_args()
    tessera = str((options.bin_folder / "tessera").resolve())
    if os.geteuid() != 0 or shutil.which("ip") is None:
        print("two_hosts: needs root and `ip` (Debian: iproute2), to make network namespaces")
        return SKIPPED
    with Hosts() as hosts, tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        kill_ranks.make_job(tessera, folder)

        def command(name):
            return [*kill_ranks.command(tessera, options.steps, f"{name}.jsonl", name),
                    "--comm", "gloo", "--timeout", str(options.timeout)]

        train(hosts, command("calm"), folder, "the undisturbed run")
        problems = lose_link(hosts, command("disturbed"), folder, options)
        hosts.mend()
        train(hosts, [*command("disturbed"), "--resume", "disturbed"], folder, "the run after it")
        if kill_ranks.curve(folder / "disturbed.jsonl") != kill_ranks.curve(folder / "calm.jsonl"):
            problems.append("the curve is not the undisturbed one")
    for problem in problems:
        print(f"two_hosts: {problem}")
    if not problems:
        print(f"two_hosts: {options.steps} steps, the link cut and mended in between: every rank "
              f"told of it in time, and the curve is the undisturbed one to the bit")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
