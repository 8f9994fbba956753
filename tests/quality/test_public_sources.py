"""The questions about public texts: what is learned from is permissively licensed, and nothing is learned from the rest."""

import gzip
import json
import tomllib
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = tomllib.loads((HERE / "public_sources.toml").read_text("utf-8"))["source"]
LINES = gzip.decompress((HERE / "public_questions.jsonl.gz").read_bytes()).decode().splitlines()
QUESTIONS = [json.loads(line) for line in LINES]
PERMISSIVE = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC-BY-4.0", "CC0-1.0", "ISC", "MIT"}


def test_every_source_is_permissive_and_has_a_fixed_commit():
    for one in SOURCES:
        assert PERMISSIVE & set(one["licence"].split(" OR ")), one["name"]
        assert len(one["commit"]) == 40, one["name"]


def test_a_repository_is_either_for_learning_or_for_testing():
    parts = {
        one["repository"]: {other["part"] for other in SOURCES if other["repository"] == one["repository"]}
        for one in SOURCES
    }
    assert all(len(some) == 1 for some in parts.values())
    assert Counter(next(iter(some)) for some in parts.values()) == {"learn": 28, "test": 10}


def test_every_question_is_about_a_source_and_every_kind_is_in_both_parts():
    part_of = {one["name"]: one["part"] for one in SOURCES}
    kinds = Counter((part_of[one["source"]], one["type"]) for one in QUESTIONS)
    assert sum(kinds.values()) == 6_002
    for part in ("learn", "test"):
        assert {type for of, type in kinds if of == part} == {
            "dated",
            "id",
            "kw",
            "negation",
            "one word",
            "other language",
            "para",
            "question",
            "same language",
            "typo",
            "who",
        }
    assert all(one["evidence"] and one["question"].strip() for one in QUESTIONS)
