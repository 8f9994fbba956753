"""`tools/evaluate.py`: labelled questions from a file, through the search itself."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labelled_questions import worlds

TOOL = Path(__file__).parents[2] / "tools" / "evaluate.py"

WORLD: dict[str, Any] = {
    "id": "harbour",
    "conversations": [
        {"id": "c1", "messages": [{"id": "m1", "speaker": "Ann", "text": "We sail on Friday."}]},
        {"id": "c2", "messages": [{"id": "m1", "speaker": "Bob", "text": "The bread is burnt."}]},
    ],
    "questions": [{"question": "When do we sail?", "evidence": ["c1/m1"]}],
}
LOCOMO: list[dict[str, Any]] = [
    {
        "sample_id": "one",
        "conversation": {
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "We sail on Friday.", "blip_caption": "a boat"}],
        },
        "qa": [{"question": "When does Ann sail?", "evidence": ["D1:1"]}, {"question": "Why?", "evidence": []}],
    }
]
LONGMEMEVAL: dict[str, Any] = {
    "question_id": "one",
    "question": "When do I sail?",
    "haystack_dates": ["2023/04/24 (Mon) 05:03"],
    "haystack_session_ids": ["s1"],
    "haystack_sessions": [[{"role": "user", "content": "I sail on Friday.", "has_answer": True}]],
    "answer_session_ids": ["s1"],
}


def evaluated(*options: str | Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
    command = [sys.executable, str(TOOL), "--json", *map(str, options)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.thorough
@pytest.mark.parametrize("data", [WORLD, LOCOMO, LONGMEMEVAL], ids=["own", "locomo", "longmemeval"])
@pytest.mark.parametrize("options", [[], ["--together"]], ids=["apart", "together"])
def test_the_figures_of_a_file_are_printed(tmp_path: Path, data: object, options: list[str]):
    path = tmp_path / "questions.json.gz"
    path.write_bytes(gzip.compress(json.dumps(data).encode()))
    done = evaluated(path, *options)
    assert done.returncode == 0, done.stderr
    (lines,) = json.loads(done.stdout)
    times = {name: lines.pop(name) for name in list(lines) if name.startswith("CPU")}
    assert all(value > 0 for value in times.values())
    assert lines == {
        "file": "questions.json.gz",
        "questions": 1,
        "message recall@10": 100.0,
        "message hit@1": 100.0,
        "message MRR": 100.0,
        "conversation hit@1": 100.0,
        "conversation hit@5": 100.0,
        "conversation nDCG@10": 100.0,
        "evidence in 1024 tokens": 100.0,
        "some evidence in 1024 tokens": 100.0,
    }


def saved(path: Path, data: object) -> Path:
    path.write_text(json.dumps(data))
    return path


def test_the_asking_date_and_the_type_of_a_question_are_read(tmp_path: Path):
    own = WORLD | {"questions": [WORLD["questions"][0] | {"as_of": "2026-05-02T10:00:00Z", "type": "when"}]}
    locomo = [LOCOMO[0] | {"qa": [LOCOMO[0]["qa"][0] | {"category": 2}]}]
    longmemeval = LONGMEMEVAL | {"question_date": "2023/05/30 (Tue) 23:40", "question_type": "temporal-reasoning"}
    found = [next(worlds(saved(tmp_path / "one.json", data))).asked[0] for data in (own, locomo, longmemeval, WORLD)]
    assert [(one.as_of and one.as_of.isoformat(), one.type) for one in found] == [
        ("2026-05-02T10:00:00+00:00", "when"),
        ("2023-05-08T13:56:00+00:00", "category 2"),
        ("2023-05-30T23:40:00+00:00", "temporal-reasoning"),
        (None, ""),
    ]


def test_each_question_type_has_its_figures(tmp_path: Path):
    easy, hard = {"question": "When do we sail?", "evidence": ["c1/m1"]}, {"question": "zz", "evidence": ["c2/m1"]}
    world = WORLD | {"questions": [easy | {"type": "easy"}, hard | {"type": "hard"}, easy]}
    done = evaluated(saved(tmp_path / "one.json", world), "--types")
    rows = [(one.get("type"), one["questions"], one["message hit@1"]) for one in json.loads(done.stdout)]
    assert rows == [(None, 3, 66.7), ("none", 1, 100.0), ("easy", 1, 100.0), ("hard", 1, 0.0)]


def test_together_puts_all_files_into_one_workspace(tmp_path: Path):
    """Equal ids of different sets are different conversations, except in LongMemEval."""
    other = WORLD | {"conversations": [{"id": "c1", "messages": [{"id": "m1", "speaker": "Eve", "text": "We rest."}]}]}
    other |= {"questions": [{"question": "Who wants to rest?", "evidence": ["c1/m1"]}]}
    again = LONGMEMEVAL | {"question_id": "two", "question": "What do I sail?"}
    files = [saved(tmp_path / f"{n}.json", data) for n, data in enumerate([WORLD, other, LOCOMO, LONGMEMEVAL, again])]
    done = evaluated(*files, "--together", "--types")
    found = [one for one in json.loads(done.stdout) if "type" not in one]
    assert [one["file"] for one in found] == [path.name for path in files]
    assert [one["questions"] for one in found] == [1] * 5
    assert [one["message recall@10"] for one in found] == [100.0] * 5
    assert [one["evidence in 1024 tokens"] for one in found] == [100.0] * 5
    # The three sets say the same of sailing, so their messages stand before each other's.
    assert {one["message hit@1"] for one in found} == {0.0, 100.0}


def test_a_file_that_is_something_else_is_refused(tmp_path: Path):
    path = tmp_path / "other.json"
    path.write_text('{"a": 1}')
    done = evaluated(path)
    assert done.returncode == 2
    assert "other.json cannot be read as labelled questions" in done.stderr
    assert "Traceback" not in done.stderr
