"""QuestionVectors in meaning, from the small model inside the package."""

from __future__ import annotations

import subprocess
import sys

from palaver.search.vectors.encoders import packed, similarity
from palaver.search.vectors.word_similarity import QuestionVectors, Segments, Similarity
from palaver.search.vectors.words import HERE, asked_for, find_related, numbers_of, related, theme
from palaver.text.tokenize import words


def whole(words: list[str]) -> Segments:
    return Segments.whole(numbers_of(words))


def parts(sentences: list[list[str]]) -> Segments:
    return Segments.parts(map(numbers_of, sentences))


def likeness(question: str, *texts: str) -> list[float]:
    return QuestionVectors(words(question), []).similarity([whole(words(text)) for text in texts]).whole


def test_a_paraphrase_is_more_like_than_another_matter():
    close, far = likeness("my dog is ill", "our puppy feels sick", "the train leaves at noon")
    assert close > far + 0.2


def test_a_text_is_like_itself():
    assert likeness("sailing to the harbour", "sailing to the harbour")[0] > 0.95


def test_a_text_without_words_is_like_nothing():
    assert likeness("my dog", "", "…", "the of and") == [0.0, 0.0, 0.0]
    assert QuestionVectors([], [["dog"]]).similarity([]) == Similarity.none(0, 1)
    assert QuestionVectors([], [["dog"]]).similarity([whole([])], [parts([[], []])]) == Similarity.none(1, 1)


def test_each_word_finds_the_word_nearest_to_it():
    ((dog, train),) = (
        QuestionVectors([], [["dog"], ["train"]]).similarity([whole(words("a puppy in a railway carriage"))]).terms
    )
    assert dog > 0.5
    assert train > 0.5


def test_a_remark_inside_a_longer_text_is_compared_by_itself():
    passing = [
        "Which curtains suit a small kitchen with white tiles?",
        "My puppy has been sick since Monday, by the way.",
    ]
    texts = [whole(words(" ".join(passing))), whole(words("the train leaves at noon"))]
    inside = [parts([words(one) for one in passing]), parts([words("the train"), words("leaves at noon")])]
    found = QuestionVectors(words("is my dog ill"), []).similarity(texts, inside)
    assert found.best[0] > found.whole[0] + 0.1
    assert found.best[0] > found.best[1] + 0.2
    alone = QuestionVectors(words("is my dog ill"), []).similarity(texts)
    assert alone.best == alone.whole == found.whole


def test_a_word_of_a_question_that_is_not_in_the_table_is_meant_as_one_with_its_stem():
    assert list(numbers_of(["hikes"])) == [0]
    assert asked_for(["hikes"])
    assert likeness("hikes", "a walk in the mountains")[0] > 0.2
    assert asked_for(["the", "quicksilverish", "x" * 300]) == []


def test_the_theme_of_a_question_has_words_near_all_of_its_words():
    asked = "What should I cook for dinner with my tomatoes?"
    found = theme(words(asked), {"dinner"})
    assert {"meal", "recipe"} & set(found)
    assert "dinner" not in found
    assert theme(["quicksilverish"], ()) == []


def test_an_unknown_word_has_no_related_words():
    assert likeness("quicksilverish", "quicksilverish") == [0.0]
    assert related("quicksilverish") == ()


def test_related_words_mean_nearly_the_same():
    assert "children" in related("kids")
    assert "purchase" in related("buy")
    assert not {"kid", "kids"} & set(related("kids"))


def test_the_model_is_small():
    assert sum((HERE / name).stat().st_size for name in ("words.npy", "words.txt")) < 10_000_000


def test_nothing_heavy_is_imported_before_the_first_question():
    program = "import sys, palaver.operations, palaver.doors.cli.main; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_similarity_of_a_vector_in_bytes_is_its_cosine():
    import numpy as np

    texts = packed(np.array([[1.0, 0.0], [0.0, 0.5], [-3.0, 0.0]]))
    assert [len(text) for text in texts] == [2, 2, 2]
    assert similarity(np.array([0.0, 2.0]), texts) == [0.0, 1.0, 0.0]
    assert similarity(np.array([1.0, 0.0]), texts) == [1.0, 0.0, -1.0]
    assert similarity(np.array([1.0, 0.0]), []) == []


def test_the_related_words_in_the_file_are_those_of_the_table():
    for word in ("boat", "buy", "kids", "harbour", "server"):
        assert list(related(word)) == find_related(numbers_of([word])[0])
