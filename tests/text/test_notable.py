"""How well the rules recognise decisions and open points, on labelled sentences; and which reports close a point."""

from __future__ import annotations

from pathlib import Path

import pytest

from palaver.text import notable

FOLDER = Path(__file__).parent
FIND = {"decided": notable.decisions, "open": notable.open_points}


def labelled(half: str) -> list[tuple[str, str]]:
    lines = (FOLDER / f"notable_{half}.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(label, sentence) for label, sentence in rows]


def measured(half: str, label: str) -> tuple[float, float]:
    """Precision and recall."""
    rows = labelled(half)
    found = [given for given, sentence in rows if FIND[label](sentence)]
    right = found.count(label)
    return right / len(found), right / sum(given == label for given, _ in rows)


@pytest.mark.parametrize("label", ["decided", "open"])
@pytest.mark.parametrize("half", ["development", "test", "unseen"])
def test_nine_of_ten_are_right_and_six_of_ten_are_found(half: str, label: str):
    precision, recall = measured(half, label)
    assert precision >= 0.9
    assert recall >= 0.6


def test_both_halves_are_large_and_have_no_sentence_in_common():
    development, test = labelled("development"), labelled("test") + labelled("unseen")
    assert min(len(development), len(test)) >= 300
    assert not {sentence for _, sentence in development} & {sentence for _, sentence in test}


@pytest.mark.parametrize(
    "report, point, expected",
    [
        ("Done: rotate the keys.", "TODO: rotate the keys", True),
        ("I rotated the keys.", "The keys still need to be rotated.", True),
        ("The export of umlauts is fixed now.", "The export of umlauts is still broken.", True),
        ("Der Export der Umlaute ist jetzt behoben.", "Noch offen: die Umlaute im Export.", True),
        ("密钥已经轮换了。", "密钥还没有轮换。", True),
        ("- [x] rotate the keys", "TODO: rotate the keys", True),
        ("I fixed the export.", "The export of umlauts is still broken.", False),
        ("The tests on SQLite pass now.", "The tests still fail on PostgreSQL.", False),
        ("Rotating the keys will be done on Monday.", "TODO: rotate the keys", False),
        ("The keys are not rotated yet.", "TODO: rotate the keys", False),
        ("Are the keys rotated?", "TODO: rotate the keys", False),
        ("Once the keys are rotated, tell me.", "TODO: rotate the keys", False),
        ("Done.", "TODO: rotate the keys", False),
    ],
)
def test_a_report_closes_only_the_point_that_it_is_about(report: str, point: str, expected: bool):
    (left,) = notable.open_points(point)
    wanted = notable.content_words(left)
    assert any(notable.settles(notable.content_words(one), wanted) for one in notable.finished(report)) is expected
