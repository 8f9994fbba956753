"""`palaver eval`: labelled questions from a file, through the search itself."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.helpers import started_with

WORLD = {
    "id": "harbour",
    "conversations": [
        {"id": "c1", "messages": [{"id": "m1", "speaker": "Ann", "text": "We sail on Friday."}]},
        {"id": "c2", "messages": [{"id": "m1", "speaker": "Bob", "text": "The bread is burnt."}]},
    ],
    "questions": [{"question": "When do we sail?", "evidence": ["c1/m1"]}],
}
LOCOMO = [
    {
        "sample_id": "one",
        "conversation": {
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "We sail on Friday.", "blip_caption": "a boat"}],
        },
        "qa": [{"question": "When does Ann sail?", "evidence": ["D1:1"]}, {"question": "Why?", "evidence": []}],
    }
]
LONGMEMEVAL = {
    "question_id": "one",
    "question": "When do I sail?",
    "haystack_dates": ["2023/04/24 (Mon) 05:03"],
    "haystack_session_ids": ["s1"],
    "haystack_sessions": [[{"role": "user", "content": "I sail on Friday.", "has_answer": True}]],
    "answer_session_ids": ["s1"],
}


def evaluated(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
    return started_with(env, "--json", "eval", str(path), *options)


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


def test_a_file_that_is_something_else_is_refused(tmp_path: Path):
    path = tmp_path / "other.json"
    path.write_text('{"a": 1}')
    done = evaluated(path)
    assert done.returncode == 2
    assert "other.json cannot be read as labelled questions" in done.stderr
    assert "Traceback" not in done.stderr
