#!/usr/bin/env python3
"""Makes a text to train on from what lies on this machine: nothing is downloaded.

    make_corpus.py [--out corpus.txt] [--max-bytes 2000000] [--root FOLDER]

Takes, in this order and sorted by path, until the size is reached: the project's own documents and
sources, the documentation of Perl's modules, the common licenses, the notes and the copyright files
of the installed packages. A paragraph that came before (license texts do, hundreds of times) is left
out. The same machine gives the same text.
"""

import argparse
import gzip
import hashlib
import os
import pathlib
import sys

import source_tree

PROJECT_SUFFIXES = [".md", ".h", ".cc", ".cu", ".py", ".sh"]
# Shorter paragraphs ("}", "Description:") may well come twice.
MIN_UNIQUE_CHARACTERS = 60


def project_files(root):
    """Documents before sources, so that a small corpus is prose first."""
    files = [path for path in source_tree.all_files(root) if path.suffix in PROJECT_SUFFIXES]
    return sorted(files, key=lambda path: (PROJECT_SUFFIXES.index(path.suffix), str(path)))


def find_files(folder, suffixes):
    return sorted(pathlib.Path(parent) / name
                  for parent, _, names in os.walk(folder) for name in names
                  if name.endswith(suffixes))


def perl_files():
    """The modules' folders carry a version; the unversioned names are links to them."""
    folders = sorted({path.resolve() for path in pathlib.Path("/usr/share/perl").glob("5*")})
    return [path for folder in folders for path in find_files(folder, (".pod", ".pm"))]


def sources(root):
    doc = pathlib.Path("/usr/share/doc")
    return [("project", project_files(root)),
            ("Perl documentation", perl_files()),
            ("licenses", sorted(pathlib.Path("/usr/share/common-licenses").glob("*"))),
            ("package notes", sorted(doc.glob("*/README*"))),
            ("package copyrights", sorted(doc.glob("*/copyright")))]


def pod_only(text):
    """The documentation inside a Perl module: from a line =word to the line =cut."""
    lines = []
    in_pod = False
    for line in text.splitlines():
        if line.startswith("=") and line[1:2].isalpha():
            in_pod = not line.startswith("=cut")
            if not in_pod:
                lines.append("")
                continue
        if in_pod:
            lines.append(line)
    return "\n".join(lines)


def read_text(path):
    """The file's text; None for what is unreadable, binary or not UTF-8."""
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        text = data.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError):
        return None
    if "\0" in text:
        return None
    return pod_only(text) if path.suffix == ".pm" else text


class Corpus:
    """Paragraphs, each once, up to a size in bytes."""

    def __init__(self, max_bytes):
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self.paragraphs = []
        self.num_repeated = 0
        self.is_full = False
        self._seen = set()

    def add(self, text):
        """Whether anything of the text was new and fitted."""
        before = len(self.paragraphs)
        text = "\n".join(line.rstrip() for line in text.splitlines())
        for paragraph in text.split("\n\n"):
            paragraph = paragraph.strip("\n")
            if not paragraph.strip():
                continue
            words = " ".join(paragraph.split())
            key = hashlib.sha256(words.encode()).digest()
            if len(words) >= MIN_UNIQUE_CHARACTERS and key in self._seen:
                self.num_repeated += 1
                continue
            size = len(paragraph.encode()) + 2
            if self.num_bytes + size > self.max_bytes:
                self.is_full = True
                break
            self._seen.add(key)
            self.paragraphs.append(paragraph + "\n\n")
            self.num_bytes += size
        return len(self.paragraphs) > before


def collect(corpus, root, left_out):
    """Fills the corpus; returns [(source, files used, bytes)]."""
    counts = []
    visited = {left_out.resolve()}
    for name, paths in sources(root):
        bytes_before = corpus.num_bytes
        num_files = 0
        for path in paths:
            if corpus.is_full:
                break
            real = path.resolve()
            if real in visited or not real.is_file():
                continue
            visited.add(real)
            text = read_text(path)
            if text is not None and corpus.add(text):
                num_files += 1
        counts.append((name, num_files, corpus.num_bytes - bytes_before))
    return counts


def write_whole(path, text):
    """The file appears under its name only when all of it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8", newline="\n")
    temporary.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("corpus.txt"))
    parser.add_argument("--max-bytes", type=int, default=2_000_000)
    parser.add_argument("--root", type=pathlib.Path, default=source_tree.default_root(),
                        help="the project whose documents and sources are taken")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    if args.max_bytes < 1:
        parser.error(f"--max-bytes: found {args.max_bytes}, expected 1 or more")
    if not args.root.is_dir():
        parser.error(f"--root: found no folder {args.root}")

    corpus = Corpus(args.max_bytes)
    counts = collect(corpus, args.root.resolve(), args.out)
    if not corpus.paragraphs:
        print(f"make_corpus: found no text that fits in {args.max_bytes} bytes", file=sys.stderr)
        return 1
    write_whole(args.out, "".join(corpus.paragraphs))
    if not args.quiet:
        for name, num_files, num_bytes in counts:
            print(f"{name:<20} {num_files:>5} files {num_bytes:>9} bytes")
        print(f"{args.out}: {corpus.num_bytes} bytes in {len(corpus.paragraphs)} paragraphs; "
              f"{corpus.num_repeated} repeated paragraphs left out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
