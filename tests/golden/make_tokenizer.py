#!/usr/bin/env python3
"""Makes the small byte-level BPE vocabulary of the tests, and texts with their tokens.

    make_tokenizer.py [FOLDER]        default: the folder tokenizer beside this file

Writes vocab.json and merges.txt, the same as tokenizer.json, and cases.json. The tokens come from the
plain encoder below, which is GPT-2's algorithm as its authors wrote it down (github.com/openai/gpt-2,
src/encoder.py): no regular expression, no heap, no cache. Needs nothing but Python.
"""

import collections
import json
import pathlib
import random
import sys
import unicodedata

NUM_MERGES = 420
END_OF_DOCUMENT = "<|endoftext|>"
CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
# The characters with Unicode's property White_Space.
WHITE_SPACE = {chr(c) for c in [*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B),
                                0x2028, 0x2029, 0x202F, 0x205F, 0x3000]}

TRAINING_TEXT = """
The ranks of a pipeline pass what they have computed to the next stage, and wait for what comes back.
A rank that waits doesn't work; a schedule that's well chosen keeps the wait short. We've measured it,
they'll measure it, and I'm sure you'd find the same: the bubble shrinks as the micro-batches grow.
"It can't be," said the first; "it is," said the second, and they're both right 12 times in 100.

    for (int i = 0; i < 1024; ++i) {
        sum += values[i] * weights[i];    // 3.14159 or 2.71828
    }
    return sum / 1024.0;

Die Größe der Stufen bestimmt, wie lange jede Stufe wartet; über die Brücke gehen größere Blöcke.
Les étapes s'attendent l'une l'autre; où déjà le calcul s'achève, la mémoire se libère à nouveau.
Все части ждут друг друга, и каждая часть работает, когда приходят данные от соседней части.
並列に学習する。次の段へ渡す。次の段から受け取る。学習する段が待つ。
The weights, the gradients and the optimizer's state: 2 + 2 + 12 bytes a parameter, 16 in all.
The weights of the layers are sharded; the layers are gathered; the gradients are reduced, sharded.
"""

PLAIN_CASES = [
    "", " ", "  ", "   x", "x   ", "\n", "\n\n\n", "\r\n", "a\r\nb", "\t\tx", " \n x", "x \n",
    "Hello world", " leading", "trailing ", "two  spaces   three", "don't can't it's we're",
    "they'll I'd I'm you've", "DON'T CAN'T IT'S", "'s", "''s", "'re're", " 's", "x's'", "'tis 'll",
    "1234567890", " 12 345", "x1y2z3", "3.14159", "1,000,000.00", "a1 b22  c333", "½ ² ³ Ⅷ ٣४",
    "!!!???...---", "#include <vector>", "f(x) = x**2;", " (a) [b] {c}", "under_score __init__",
    "naïve café résumé", "Grüße aus Köln", "Größe über Brücke", "où déjà à nouveau",
    "Привет, мир!", "каждая часть", "日本語のテキスト", "学習する。", "한국어 텍스트", "مرحبا بالعالم",
    "नमस्ते दुनिया", "👩‍👩‍👧‍👦 family emoji 🎉🎊", "a\u0301 combining e\u0301", "\u00a0nbsp\u2003em space",
    "\u200bzero width", "ﬁ ligature", "<|endoftext|>", "a<|endoftext|>b", "a" * 100, " " * 50, "ab" * 40,
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "ʼn Ǆ ǅ", "\u0000\u0001 control", "\u0085next\u0085\u0085 line", "a\u180eb \u180e",
    "\u2028sep\u2029", "\u3000wide\u3000\u3000 x", "The quick brown fox jumps over the lazy dog.",
    "\ufeffbom", "\u00adsoft", "\u1680ogham", "\x1c\x1d\x1e\x1f x", "\v\f x",
]
RANDOM_ALPHABET = ["a", "e", "th", "s", "t", "re", "er", "in", "d", "'", "'", " ", " ", "  ", "\n", "\t", "1",
                   "42", ".", ",", "(", "é", "ß", "я", "学", "🎉", "\u0301", "\u00a0", "\u3000", "½", "_", "The",
                   "\r\n", "weights", "\U0001d518"]


def byte_alphabet():
    """The printable character of each byte, in the order in which GPT-2 numbers them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable},
            **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def kind(character):
    if character in WHITE_SPACE:
        return "space"
    return {"L": "letter", "N": "number"}.get(unicodedata.category(character)[0], "other")


def run_end(text, begin, wanted):
    while begin < len(text) and kind(text[begin]) == wanted:
        begin += 1
    return begin


def piece_end(text, begin):
    for contraction in CONTRACTIONS:
        if text.startswith(contraction, begin):
            return begin + len(contraction)
    first = begin + 1 if text[begin] == " " else begin
    for wanted in ("letter", "number", "other"):
        end = run_end(text, first, wanted)
        if end > first:
            return end
    end = run_end(text, begin, "space")
    # Before a word the last space is left to it.
    return end - 1 if end < len(text) and end - begin > 1 else end


def pieces(text):
    begin = 0
    while begin < len(text):
        end = piece_end(text, begin)
        yield text[begin:end]
        begin = end


def merge_all(symbols, pair):
    merged, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i:i + 2]) == pair:
            merged.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def train(alphabet):
    """The most frequent pair again and again, the first in the order of its text of equals."""
    words = [[[alphabet[byte] for byte in piece.encode()], count]
             for piece, count in collections.Counter(pieces(TRAINING_TEXT)).items()]
    merges = []
    while len(merges) < NUM_MERGES:
        counts = collections.Counter()
        for symbols, count in words:
            for pair in zip(symbols, symbols[1:]):
                counts[pair] += count
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append(best)
        for word in words:
            word[0] = merge_all(word[0], best)
    return merges


def encode(text, alphabet, vocabulary, ranks):
    ids = []
    for piece in pieces(text):
        symbols = [alphabet[byte] for byte in piece.encode()]
        while True:
            known = [pair for pair in zip(symbols, symbols[1:]) if pair in ranks]
            if not known:
                break
            symbols = merge_all(symbols, min(known, key=ranks.get))
        ids += [vocabulary[symbol] for symbol in symbols]
    return ids


def make_cases(encode_text):
    generator = random.Random(7)
    texts = PLAIN_CASES + ["".join(generator.choices(RANDOM_ALPHABET, k=generator.randint(2, 40)))
                           for _ in range(150)]
    return [{"text": text, "ids": encode_text(text)} for text in texts]


def tokenizer_json(vocabulary, merges):
    """The keys that the tokenizers library writes for GPT-2."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": vocabulary[END_OF_DOCUMENT], "content": END_OF_DOCUMENT,
                              "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True}],
            "normalizer": None, "pre_tokenizer": level,
            "post_processor": {**level, "trim_offsets": False}, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": vocabulary, "merges": [list(pair) for pair in merges]}}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1
                          else pathlib.Path(__file__).parent / "tokenizer")
    folder.mkdir(parents=True, exist_ok=True)
    alphabet = byte_alphabet()
    merges = train(alphabet)
    tokens = [*alphabet.values(), *("".join(pair) for pair in merges), END_OF_DOCUMENT]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    ranks = {pair: rank for rank, pair in enumerate(merges)}

    def write(name, text):
        (folder / name).write_text(text + "\n", encoding="utf-8")

    write("vocab.json", json.dumps(vocabulary))
    write("merges.txt", "\n".join(["#version: 0.2", *(" ".join(pair) for pair in merges)]))
    write("tokenizer.json", json.dumps(tokenizer_json(vocabulary, merges)))
    cases = make_cases(lambda text: encode(text, alphabet, vocabulary, ranks))
    write("cases.json", "[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")


if __name__ == "__main__":
    main()
