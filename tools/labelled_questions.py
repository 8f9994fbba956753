"""Read labelled questions for the evaluation: conversations, questions about them, and the messages with the answers.

A file has one test set (world) a line, as JSON; each is searched separately:

    {"id": "harbour", "conversations": [{"id": "c1", "title": "Plans", "messages": [
        {"id": "m1", "speaker": "Ann", "text": "We sail on Friday.", "at": "2026-05-01T10:00:00Z"}]}],
     "questions": [{"question": "When do we sail?", "evidence": ["c1/m1"]}]}

`conversations` of a question are the ones that answer it; by default those of the evidence. `as_of` is when it is
asked, by default at the last message; `type` is its type. LoCoMo and LongMemEval are read in their published formats.
Any file may be compressed with gzip.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Line:
    id: str
    speaker: str
    text: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Talk:
    id: str
    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    question: str
    evidence: frozenset[tuple[str, str]]
    """The ids of conversations and messages."""
    conversations: frozenset[str]
    places: tuple[tuple[str, str], ...] = ()
    """The evidence as the id of the conversation and the position of the message, from 1."""
    as_of: datetime | None = None
    """When the question is asked; None: now."""
    type: str = ""


@dataclass(frozen=True, slots=True)
class World:
    id: str
    talks: tuple[Talk, ...]
    asked: tuple[Asked, ...]
    shares_talks: bool = False
    """Conversations with the same id in other test sets are the same conversations."""


def worlds(path: Path) -> Iterator[World]:
    """The test sets of a file in any of the three formats."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        start = file.read(1)
        if start == "[":
            entries = json.loads(start + file.read())
        else:
            entries = [json.loads(line) for line in [start + file.readline(), *file] if line.strip()]
    for number, entry in enumerate(entries):
        if "haystack_sessions" in entry:
            world = _longmemeval(entry)
        elif "conversation" in entry and "qa" in entry:
            world = _locomo(entry)
        else:
            world = _own(entry, number)
        at = {(talk.id, line.id): str(n) for talk in world.talks for n, line in enumerate(talk.lines, 1)}
        asked = [
            replace(one, places=tuple((place[0], at[place]) for place in sorted(one.evidence) if place in at))
            for one in world.asked
        ]
        yield replace(world, asked=tuple(asked))


def renamed(world: World, name: str) -> World:
    """The test set with `name` before the id of each conversation."""

    def own(talk: str) -> str:
        return f"{name}:{talk}"

    return replace(
        world,
        id=name,
        talks=tuple(replace(talk, id=own(talk.id)) for talk in world.talks),
        asked=tuple(
            replace(
                one,
                evidence=frozenset((own(talk), line) for talk, line in one.evidence),
                conversations=frozenset(map(own, one.conversations)),
                places=tuple((own(talk), place) for talk, place in one.places),
            )
            for one in world.asked
        ),
    )


def _own(entry: dict[str, Any], number: int) -> World:
    talks = tuple(
        Talk(
            str(talk["id"]),
            talk.get("title") or "",
            tuple(
                Line(
                    str(one.get("id", n)),
                    one.get("speaker", ""),
                    one["text"],
                    _time(one.get("at")),
                )
                for n, one in enumerate(talk["messages"])
            ),
        )
        for talk in entry["conversations"]
    )
    last = max((line.at for talk in talks for line in talk.lines if line.at), default=None)
    asked = []
    for one in entry["questions"]:
        evidence = frozenset((talk, line) for talk, _, line in (place.partition("/") for place in one["evidence"]))
        named = one.get("conversations") or [talk for talk, _ in evidence]
        as_of, type = _time(one.get("as_of")) or last, str(one.get("type") or "")
        asked.append(Asked(one["question"], evidence, frozenset(named), as_of=as_of, type=type))
    return World(str(entry.get("id", number)), talks, tuple(asked))


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).astimezone(UTC) if text else None


def _locomo(entry: dict[str, Any]) -> World:
    """LoCoMo: two people over months. A shared picture becomes its caption. Questions are asked at the end."""
    talk = entry["conversation"]
    numbers = sorted(int(found[1]) for key in talk if (found := re.fullmatch(r"session_(\d+)", key)))
    talks, where, last = [], {}, None
    for number in numbers:
        at = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        last = max(last or at, at)
        lines = []
        for turn in talk[f"session_{number}"]:
            caption = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            lines.append(Line(turn["dia_id"], turn["speaker"], turn["text"] + caption, at))
            where[turn["dia_id"]] = f"session_{number}"
        talks.append(Talk(f"session_{number}", "", tuple(lines)))
    asked = []
    for one in entry["qa"]:
        named = re.findall(r"D\d+:\d+", " ".join(one.get("evidence") or []).replace(" ", "") or "")
        evidence = frozenset((where[id], id) for id in named if id in where)
        if evidence:
            type = f"category {one['category']}" if "category" in one else ""
            conversations = frozenset(talk for talk, _ in evidence)
            asked.append(Asked(one["question"], evidence, conversations, as_of=last, type=type))
    return World(entry["sample_id"], tuple(talks), tuple(asked))


def _longmemeval(entry: dict[str, Any]) -> World:
    """LongMemEval: a user and an assistant, with one question. A question without an answer is left out."""
    talks, evidence = list[Talk](), set[tuple[str, str]]()
    sessions = zip(entry["haystack_dates"], entry["haystack_session_ids"], entry["haystack_sessions"], strict=True)
    for date, id, turns in sorted(sessions, key=lambda session: session[0]):
        if any(talk.id == id for talk in talks):
            continue
        at = _longmemeval_time(date)
        lines = tuple(Line(str(n), turn["role"], turn["content"], at) for n, turn in enumerate(turns, 1))
        talks.append(Talk(id, "", lines))
        evidence |= {(id, str(n)) for n, turn in enumerate(turns, 1) if turn.get("has_answer")}
    is_answerable = not entry["question_id"].endswith("_abs")
    asked = Asked(
        entry["question"],
        frozenset(evidence),
        frozenset(entry["answer_session_ids"]),
        as_of=_longmemeval_time(entry["question_date"]) if entry.get("question_date") else None,
        type=entry.get("question_type") or "",
    )
    return World(entry["question_id"], tuple(talks), (asked,) if is_answerable else (), shares_talks=True)


def _longmemeval_time(date: str) -> datetime:
    """A time such as 2023/05/30 (Tue) 23:40."""
    return datetime.strptime(re.sub(r" \(\w+\)", "", date), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)
