"""Questions to people: messages that wait for one answer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from palaver.model.messages import EarlierAnswer, InboxQuestion
from palaver.model.times import micros, now
from palaver.store.bus import messages
from palaver.store.bus.threads import FAR_FUTURE
from palaver.store.engines.database import Change, Reader, Row
from palaver.store.rows import from_row

FACTS = "question"
"""The part of a message's metadata with the choices or the permission that is asked for."""
DEFAULT_ANSWER = "no"
"""What counts if nobody answers in time."""
MOST_EARLIER = 3


@dataclass(frozen=True, slots=True)
class StoredQuestion(InboxQuestion):
    """A question with the ids of its passage, its thread's document and the passage of its answer."""

    passage_id: int = 0
    document_id: int = 0
    answer_passage_id: int | None = None
    fingerprint: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


def add(change: Change, message_id: str, expires_at: datetime) -> StoredQuestion:
    """The message asks people something until this time."""
    stored = messages.must_exist(change, message_id)
    passage_id, message = stored.passage_id, stored.message
    words = orjson.dumps([message.content.split(), (message.metadata or {})[FACTS]], option=orjson.OPT_SORT_KEYS)
    fingerprint = hashlib.sha256(words).hexdigest()
    change.run("insert_question", passage_id=passage_id, fingerprint=fingerprint, expires_at=micros(expires_at))
    return by_passage(change, passage_id)


def find(read: Reader, question_id: str) -> StoredQuestion | None:
    stored = messages.find(read, question_id)
    return next(iter(_between(read, stored.passage_id, stored.passage_id)), None) if stored else None


def by_passage(read: Reader, passage_id: int) -> StoredQuestion:
    return _between(read, passage_id, passage_id)[0]


def newest(read: Reader, state: str, agent_id: str | None, limit: int) -> list[StoredQuestion]:
    """The newest questions of one agent or of all, in one state or in all."""
    return _between(read, 0, FAR_FUTURE, state=state, agent_id=agent_id, limit=limit)


def _between(read: Reader, first: int, last: int, **wanted: Any) -> list[StoredQuestion]:
    given = {"state": "all", "agent_id": None, "limit": 1, "now": micros(now())} | wanted
    return [_question(row) for row in read.all("questions", first=first, last=last, **given)]


def _question(row: Row) -> StoredQuestion:
    data = orjson.loads(row["data"])
    about = {"asked_by": data.get("author_name") or row["author"], "metadata": data["metadata"]}
    about["answer"] = DEFAULT_ANSWER if row["state"] == "expired" else row["answer"]
    return from_row(StoredQuestion, row | about | data["metadata"][FACTS])


def earlier_answers(read: Reader, stored: StoredQuestion) -> list[EarlierAnswer]:
    """The latest answers to the same question."""
    same = {"fingerprint": stored.fingerprint, "passage_id": stored.passage_id, "limit": MOST_EARLIER}
    return [from_row(EarlierAnswer, row) for row in read.all("answers_to_same", **same)]


def take_answer(change: Change, stored: StoredQuestion, answered_by: str, choice: str | None) -> bool:
    """Store who answered. Returns False if somebody answered before, or the question has expired."""
    told = {"passage_id": stored.passage_id, "at": micros(now()), "answered_by": answered_by, "choice": choice}
    return bool(change.run("answer_question", **told))


def set_answer_message(change: Change, stored: StoredQuestion, message_id: str) -> StoredQuestion:
    answer = messages.must_exist(change, message_id).passage_id
    change.run("set_answer_message", passage_id=stored.passage_id, answer_passage_id=answer)
    return by_passage(change, stored.passage_id)


def end(change: Change, stored: StoredQuestion) -> None:
    """Nobody waits for the answer any more."""
    change.run("end_question", passage_id=stored.passage_id, at=micros(now()))


def has_expired(read: Reader) -> bool:
    return read.one("has_expired_questions", at=micros(now())) is not None


def expire(change: Change) -> list[StoredQuestion]:
    """The questions that have expired since the last call."""
    return [by_passage(change, row["passage_id"]) for row in change.all("expire_questions", at=micros(now()))]


def is_part_of_one(read: Reader, passage_id: int) -> bool:
    """Whether a message is a question or the answer to one."""
    return read.one("is_question", passage_id=passage_id) is not None
