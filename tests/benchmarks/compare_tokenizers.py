#!/usr/bin/env python3
"""Times `tessera data build` on a text, and holds its tokens against those of other programs.

    compare_tokenizers.py --tessera build/cpu-release/bin/tessera --vocabulary FOLDER --text FILE
                          [--megabytes 50] [--workers 1,2] [--ids FILE.u16] [--cases FILE.json]

FOLDER holds GPT-2's vocab.json and merges.txt. FILE is repeated up to --megabytes; it counts with the
time that starting and loading the vocabulary takes. --ids are the tokens of FILE as little-endian
u16, --cases a list of {"text", "ids"}, both from elsewhere: they must be met. Where Python has the
packages tokenizers or tiktoken, they encode the same text, in one process, and the tokens must be
equal; the ratios are of tessera's speed to theirs, by the clock and by processor time, which tells
more on a machine that does other work.
"""

import argparse
import array
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", required=True)
    parser.add_argument("--vocabulary", required=True, type=pathlib.Path)
    parser.add_argument("--text", required=True, type=pathlib.Path)
    parser.add_argument("--megabytes", type=float, default=50)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--ids", type=pathlib.Path)
    parser.add_argument("--cases", type=pathlib.Path)
    return parser.parse_args()


class Stopwatch:
    """Seconds by the clock, and of the processor in this process and its children."""

    def __init__(self):
        self.begin = self.now()

    @staticmethod
    def now():
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return time.perf_counter(), sum(usage.ru_utime + usage.ru_stime for usage in used)

    def seconds(self):
        return [end - begin for begin, end in zip(self.begin, self.now())]


def speed_text(megabytes, seconds):
    clock, processor = seconds
    return (f"{megabytes:.1f} MB in {clock:.2f} s, {megabytes / clock:.1f} MB/s; "
            f"{processor:.2f} s of the processor, {megabytes / processor:.1f} MB/s a core")


def build(options, inputs, prefix, workers):
    """Seconds as of a stopwatch, and the path of the tokens."""
    watch = Stopwatch()
    subprocess.run([options.tessera, "data", "build", *map(str, inputs), "--out", str(prefix),
                    "--tokenizer", f"gpt2:{options.vocabulary}", "--workers", str(workers),
                    "--quiet", "--format", "json"], check=True, stdout=subprocess.DEVNULL)
    return watch.seconds(), pathlib.Path(f"{prefix}.bin")


def tokens_of(path):
    return array.array("H", path.read_bytes())


def check_ids(options, folder):
    _, built = build(options, [options.text], folder / "ids", 2)
    expected = tokens_of(options.ids)
    equal = tokens_of(built) == expected
    print(f"{options.text.name}: {len(tokens_of(built)):,} tokens, "
          f"{'equal to' if equal else 'OTHER THAN'} the {len(expected):,} of {options.ids.name}")
    shown = subprocess.run([options.tessera, "data", "inspect", str(built), "--tokens", "1000000",
                            "--tokenizer", f"gpt2:{options.vocabulary}", "--format", "json"],
                           check=True, capture_output=True, text=True)
    text = options.text.read_text(encoding="utf-8")
    printable = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    decoded = json.loads(shown.stdout)["first_text"] == printable
    print(f"decoded: {'equal to the text' if decoded else 'OTHER THAN THE TEXT'}")
    return equal and decoded


def check_cases(options, folder):
    failed = 0
    cases = [case for case in json.loads(options.cases.read_text(encoding="utf-8")) if case["text"]]
    for case in cases:
        (folder / "case.txt").write_bytes(case["text"].encode())
        _, built = build(options, [folder / "case.txt"], folder / "case", 1)
        if list(tokens_of(built)) != case["ids"]:
            failed += 1
            print(f"OTHER: {case['text']!r}: {list(tokens_of(built))}, not {case['ids']}")
    print(f"cases: {len(cases) - failed} of {len(cases)} equal")
    return failed == 0


def peers(options):
    """Encoders by name: text to tokens, on as many cores as they take."""
    found = {}
    merges = str(options.vocabulary / "merges.txt")
    vocabulary = str(options.vocabulary / "vocab.json")
    try:
        import tokenizers
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(vocabulary, merges))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)

        def encode_batch(parts):
            return [i for encoding in tokenizer.encode_batch(parts) for i in encoding.ids]
        found[f"tokenizers {tokenizers.__version__}, {os.cpu_count()} cores"] = encode_batch
    except ImportError:
        print("peer: no package tokenizers")
    try:
        import tiktoken
        sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "golden"))
        import make_tokenizer
        byte_of = {character: byte for byte, character in make_tokenizer.byte_alphabet().items()}
        ranks = {bytes(byte_of[c] for c in token): i
                 for token, i in json.loads(pathlib.Path(vocabulary).read_text()).items()
                 if token != make_tokenizer.END_OF_DOCUMENT}
        pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
        encoding = tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})

        def encode_parts(parts):
            lists = encoding.encode_ordinary_batch(parts, num_threads=os.cpu_count())
            return [i for ids in lists for i in ids]
        found[f"tiktoken {tiktoken.__version__}, {os.cpu_count()} threads"] = encode_parts
    except ImportError:
        print("peer: no package tiktoken")
    return found


def main():
    options = arguments()
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if options.ids:
            good &= check_ids(options, folder)
        if options.cases:
            good &= check_cases(options, folder)
        part = options.text.read_text(encoding="utf-8")
        count = max(1, round(options.megabytes * 1e6 / len(part.encode())))
        large = folder / "large.jsonl"
        large.write_text((json.dumps({"text": part}, ensure_ascii=False) + "\n") * count,
                         encoding="utf-8")
        size = len(part.encode()) * count / 1e6
        times, files = [], []
        for workers in map(int, options.workers.split(",")):
            seconds, built = build(options, [large], folder / f"large{workers}", workers)
            times.append(seconds)
            files.append(built.read_bytes())
            print(f"tessera, {workers} workers: {speed_text(size, seconds)}")
        same = all(file == files[0] for file in files)
        good &= same
        print("files of all numbers of workers: " + ("equal" if same else "OTHERS"))
        best = [min(column) for column in zip(*times)]
        for peer, encode in peers(options).items():
            watch = Stopwatch()
            ids = encode([part] * count)
            seconds = watch.seconds()
            equal = array.array("H", ids).tobytes() == files[0]
            good &= equal
            ratios = [theirs / ours for theirs, ours in zip(seconds, best)]
            print(f"{peer}: {speed_text(size, seconds)}; tokens {'equal' if equal else 'OTHER'}; "
                  f"tessera {ratios[0]:.2f} x as fast, {ratios[1]:.2f} x by the processor")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
