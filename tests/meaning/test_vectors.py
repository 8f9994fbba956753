"""Likeness in meaning, from the small model inside the package."""

from __future__ import annotations

import subprocess
import sys

from palaver.meaning.encoders import likeness as nearest
from palaver.meaning.encoders import packed
from palaver.meaning.vectors import HERE, Likeness, related
from palaver.text.fold import words


def likeness(question: str, *texts: str) -> list[float]:
    whole, _ = Likeness(words(question), []).to([words(text) for text in texts])
    return whole


def test_a_paraphrase_is_more_like_than_another_matter():
    close, far = likeness("my dog is ill", "our puppy feels sick", "the train leaves at noon")
    assert close > far + 0.2


def test_a_text_is_like_itself():
    assert likeness("sailing to the harbour", "sailing to the harbour")[0] > 0.95


def test_a_text_without_words_is_like_nothing():
    assert likeness("my dog", "", "…", "the of and") == [0.0, 0.0, 0.0]
    assert Likeness([], [["dog"]]).to([]) == ([], [])
    assert Likeness([], [["dog"]]).to([[]]) == ([0.0], [[0.0]])


def test_each_word_finds_the_word_nearest_to_it():
    _, ((dog, train),) = Likeness([], [["dog"], ["train"]]).to([words("a puppy in a railway carriage")])
    assert dog > 0.5
    assert train > 0.5


def test_a_word_nobody_knows_says_nothing():
    assert likeness("quicksilverish", "quicksilverish") == [0.0]
    assert related("quicksilverish") == ()


def test_related_words_mean_nearly_the_same():
    assert "children" in related("kids")
    assert "purchase" in related("buy")
    assert not {"kid", "kids"} & set(related("kids"))


def test_the_model_is_small():
    assert sum((HERE / name).stat().st_size for name in ("words.npy", "words.txt")) < 10_000_000


def test_nothing_heavy_is_imported_before_the_first_question():
    program = "import sys, palaver.operations, palaver.doors.cli; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_nearest_of_its_vectors_says_how_alike_a_text_is():
    import numpy as np

    rows = [np.array([[1.0, 0.0], [0.0, 0.5]]), np.array([[-3.0, 0.0]])]
    texts = packed(rows, [2, 1])
    assert [len(text) for text in texts] == [4, 2]
    assert nearest(np.array([0.0, 2.0]), texts) == [1.0, 0.0]
    assert nearest(np.array([1.0, 0.0]), texts) == [1.0, -1.0]
    assert nearest(np.array([1.0, 0.0]), []) == []
