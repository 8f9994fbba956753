"""MiniLM in numpy, with small weights that are made up here: the real ones are a package of their own."""

from __future__ import annotations

import json
from math import erf, exp, sqrt
from pathlib import Path

import numpy as np
import pytest

from palaver.search.vectors import encoders, minilm
from palaver.search.vectors.encoders import CannotEncode
from palaver.search.vectors.minilm import MiniLM, Pieces, Transformer

WIDTH, INNER, LAYERS, PLACES = 24, 32, 2, 300
MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = [*MARKS, "un", "##aff", "##able", "cafe", "!", "'", "a", "##b", "東", "京", "$", "5", "##0", "€", "dog", "_"]
PAD, UNKNOWN, BEGIN, END = range(4)


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    chance = np.random.default_rng(7)

    def some(*shape: int) -> np.ndarray:
        return (chance.standard_normal(shape) * 0.4).astype(np.float32)

    found = {
        "embeddings.word_embeddings.weight": some(len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": some(PLACES, WIDTH),
        "embeddings.token_type_embeddings.weight": some(2, WIDTH),
        "embeddings.LayerNorm.weight": some(WIDTH),
        "embeddings.LayerNorm.bias": some(WIDTH),
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        for name, out, into in (
            ("attention.self.query", WIDTH, WIDTH),
            ("attention.self.key", WIDTH, WIDTH),
            ("attention.self.value", WIDTH, WIDTH),
            ("attention.output.dense", WIDTH, WIDTH),
            ("intermediate.dense", INNER, WIDTH),
            ("output.dense", WIDTH, INNER),
        ):
            found |= {f"{at}.{name}.weight": some(out, into), f"{at}.{name}.bias": some(out)}
        for name in ("attention.output", "output"):
            found |= {f"{at}.{name}.LayerNorm.weight": some(WIDTH), f"{at}.{name}.LayerNorm.bias": some(WIDTH)}
    return found


def by_the_book(weights: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """A BERT, slowly: one place, one head, one number at a time."""
    kept = {name: value.astype(float) for name, value in weights.items()}

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return kept[f"{name}.weight"] @ x + kept[f"{name}.bias"]

    def normal(name: str, x: np.ndarray) -> np.ndarray:
        return (x - x.mean()) / sqrt(x.var() + 1e-12) * kept[f"{name}.weight"] + kept[f"{name}.bias"]

    rows = [
        normal(
            "embeddings.LayerNorm",
            kept["embeddings.word_embeddings.weight"][id]
            + kept["embeddings.position_embeddings.weight"][place]
            + kept["embeddings.token_type_embeddings.weight"][0],
        )
        for place, id in enumerate(ids)
    ]
    size = WIDTH // minilm.HEADS
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        query, key, value = (
            [linear(f"{at}.attention.self.{part}", x) for x in rows] for part in ("query", "key", "value")
        )
        after = []
        for n, x in enumerate(rows):
            seen = np.zeros(WIDTH)
            for head in range(minilm.HEADS):
                own = slice(head * size, (head + 1) * size)
                looks = [exp(query[n][own] @ one[own] / sqrt(size)) for one in key]
                seen[own] = sum(look * one[own] for look, one in zip(looks, value, strict=True)) / sum(looks)
            x = normal(f"{at}.attention.output.LayerNorm", x + linear(f"{at}.attention.output.dense", seen))
            inner = linear(f"{at}.intermediate.dense", x)
            inner = np.array([number * 0.5 * (1 + erf(number / sqrt(2))) for number in inner])
            after.append(normal(f"{at}.output.LayerNorm", x + linear(f"{at}.output.dense", inner)))
        rows = after
    return np.mean(rows, axis=0)


def test_the_network_computes_what_the_book_says_text_by_text(weights):
    texts = [[BEGIN, 10, END], [BEGIN, 4, 5, 6, 8, END], [BEGIN, END], [BEGIN, *([7, 18, 10] * 20), END]]
    found = Transformer(weights)(texts)
    for row, text in zip(found, texts, strict=True):
        assert row == pytest.approx(by_the_book(weights, text), abs=2e-3)


@pytest.fixture(scope="module")
def folder(weights, tmp_path_factory) -> Path:
    """The files as the package has them."""
    there = tmp_path_factory.mktemp("model")
    (there / "vocab.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    numbers = b""
    for name, value in weights.items():
        size = len(numbers)
        numbers += value.tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [size, len(numbers)]}
    top = json.dumps(header).encode()
    (there / "model.safetensors").write_bytes(len(top).to_bytes(8, "little") + top + numbers)
    return there


def test_a_text_has_the_same_vector_alone_and_among_others_and_its_length_is_one(folder, weights):
    run = MiniLM(folder)
    texts = ["unaffable dog", "dog " * 400, "", "a", *("Café!" for _ in range(300))]
    found = run(texts)
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-5)
    for row, text in list(zip(found, texts, strict=True))[:6]:
        assert row == pytest.approx(run([text])[0], abs=1e-5)
    bare = by_the_book(weights, [BEGIN, 4, 5, 6, 18, END])
    assert found[0] == pytest.approx(bare / np.linalg.norm(bare), abs=2e-3)
    assert run([]).shape == (0, WIDTH)


@pytest.mark.parametrize(
    "text, pieces",
    [
        ("unaffable", [4, 5, 6]),
        ("UnAffable!", [4, 5, 6, 8]),
        ("Café", [7]),
        ("a'ab", [10, 9, 10, 11]),
        ("ax a", [UNKNOWN, 10]),
        ("東京", [12, 13]),
        ("$50", [14, 15, 16]),
        ("€a", [UNKNOWN]),
        ("a\u200b\x00b\ta\u00a0a", [10, 11, 10, 10]),
        ("a_a", [10, 19, 10]),
        ("a" * 101, [UNKNOWN]),
        ("", []),
    ],
)  # fmt: skip
def test_words_are_cut_as_bert_cuts_them(text: str, pieces: list[int]):
    assert Pieces(WORDS).of(text) == [BEGIN, *pieces, END]


def test_a_long_text_is_read_as_far_as_it_was_trained():
    found = Pieces(WORDS).of("dog " * 1_000)
    assert len(found) == minilm.MOST_PIECES
    assert found[-1] == END


def test_without_its_weights_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setattr("sys.path_importer_cache", {})
    with pytest.raises(CannotEncode, match=r"pip install 'palaver-bus\[minilm\]'"):
        encoders.encoder("minilm", "", "")
