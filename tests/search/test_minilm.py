"""MiniLM: how it cuts texts, and the vectors that the shipped model makes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from palaver.search.vectors import encoders, onnx_models
from palaver.search.vectors.encoders import CannotEncode
from palaver.search.vectors.onnx_models import MiniLM, Pieces, checksum, one_vector

MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = [*MARKS, "un", "##aff", "##able", "cafe", "!", "'", "a", "##b", "東", "京", "$", "5", "##0", "€", "dog", "_"]
PAD, UNKNOWN, BEGIN, END = range(4)

HOSTILE = [
    "",
    " \n\t ",
    "\x00\x01\x7f\ufffe\ufeff",
    "\ud800 half of a pair",
    "a\u0301" * 3_000,
    "🧨" * 5_000,
    "x" * 100_000,
    "[CLS] [SEP] [PAD] [UNK] [MASK]",
    "\u202e\u200d\u2066",
    "東京" * 4_000,
]


# Pieces


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
    assert len(found) == onnx_models.MOST_PIECES == 256
    assert found[-1] == END


# The model


@pytest.fixture(scope="module")
def model() -> MiniLM:
    return MiniLM()


def test_a_text_has_the_same_vector_alone_and_among_others_and_its_length_is_one(model: MiniLM):
    texts = ["The server stopped.", "word " * 400, "", "a", "Café!", "The server stopped."]
    found = model(texts)
    assert found.shape == (len(texts), 384)
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-4)
    for row, text in zip(found, texts, strict=True):
        assert np.array_equal(row, model([text])[0])


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_model_in_a_folder_of_its_own_gives_its_vectors(model: MiniLM, tmp_path: Path, is_folder: bool):
    (tmp_path / "model.onnx").symlink_to(onnx_models.HERE / "minilm.onnx")
    (tmp_path / "vocab.txt").symlink_to(onnx_models.HERE / "minilm_vocabulary.txt")
    name = str(tmp_path if is_folder else tmp_path / "model.onnx")
    encoder = encoders.encoder(name, "", "")
    assert encoder
    texts = ["The server stopped.", "Café!"]
    assert np.allclose(encoder.encode(texts, 1), model(texts), atol=1e-6)
    assert encoders.is_local(name)
    assert encoders.stored_name(name) == f"onnx {checksum(str(onnx_models.HERE / 'minilm.onnx'))}"


def test_a_model_without_a_tokenizer_says_what_it_needs(tmp_path: Path):
    (tmp_path / "model.onnx").symlink_to(onnx_models.HERE / "minilm.onnx")
    encoder = encoders.encoder(str(tmp_path), "", "")
    assert encoder
    with pytest.raises(CannotEncode, match=r"tokenizer\.json or vocab\.txt"):
        encoder.encode(["a"], 1)


def test_a_vector_for_each_piece_becomes_one_of_length_one():
    pieces = np.array([[3.0, 4.0], [3.0, -4.0]])
    assert one_vector(pieces, is_first=False) == pytest.approx([1, 0])
    assert one_vector(pieces, is_first=True) == pytest.approx([0.6, 0.8])
    assert one_vector(pieces[0], is_first=False) == pytest.approx([0.6, 0.8])


def test_words_after_the_last_piece_change_nothing(model: MiniLM):
    begin = "word " * 254
    one, other, shorter = model([f"{begin} boat", f"{begin} engine", "word " * 253])
    assert np.array_equal(one, other)
    assert not np.array_equal(one, shorter)


ANSWERS = [
    "We moved the nightly backup to two in the morning, because the import runs at midnight.",
    "My sister's wedding is in Lisbon, on the second weekend of June.",
    "Set max_connections to 200 and restart PostgreSQL.",
    "The cat has an allergy, so it only eats the fish food.",
]


@pytest.mark.parametrize(
    "question, answer",
    [
        ("When does the backup job start?", 0),
        ("Where does the family celebrate the marriage?", 1),
        ("how do I allow more clients on the database", 2),
        ("What may our pet be fed with?", 3),
    ],
)
def test_a_question_is_nearer_to_its_answer_than_to_others(model: MiniLM, question: str, answer: int):
    asked, *said = model([question, *ANSWERS])
    assert int(np.argmax([asked @ row for row in said])) == answer


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_have_a_vector(model: MiniLM, text: str):
    (found,) = model([text])
    assert np.isfinite(found).all()
    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-4)


def test_vectors_in_bytes_have_nearly_the_same_direction(model: MiniLM):
    rows = model(ANSWERS)
    assert encoders.similarity(rows[0], encoders.packed(rows)) == pytest.approx((rows @ rows[0]).tolist(), abs=0.01)


def test_without_onnxruntime_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setattr("sys.path_importer_cache", {})
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    encoders.encoder.cache_clear()
    with pytest.raises(CannotEncode, match=r"needs the package onnxruntime: .* or set PALAVER_MODEL=words"):
        encoders.encoder("minilm", "", "")


def test_nothing_is_loaded_before_the_first_vector():
    code = """
import sys
from palaver.search.vectors import encoders
run = encoders.encoder("minilm", "", "")
assert not {"numpy", "onnxruntime"} & sys.modules.keys()
run.encode(["word"], 1.0)
assert {"numpy", "onnxruntime"} <= sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
