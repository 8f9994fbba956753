"""What was done in a session: requests, edits, failures, decisions and open points. Sessions are chosen by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from math import log2
from threading import Lock

from palaver.model.answers import answer_of
from palaver.model.people import Caller
from palaver.model.projects import identity_of
from palaver.model.sessions import Owner
from palaver.model.times import now
from palaver.operations.sessions.steps import SHELLS, Step, call_text, steps_of
from palaver.store.engines.database import Reader
from palaver.store.sessions import outlines, sessions, sharing
from palaver.store.sessions.sessions import SessionInfo
from palaver.text import notable
from palaver.text.hook_text import is_hook_text

SESSIONS_TO_CHOOSE_FROM = 200
MOST_TEXTS = 40
"""Only so many of the last texts of a session are read for decisions and open points."""
MOST_AT_ONCE = 240
"""One answer reads at most this many texts that are not in the cache, those of the latest sessions. The next one reads
on: a hook has little time."""
LONGEST_TEXT = 6_000
"""Longer texts, such as pasted logs, are read at their beginning and end."""
MOST_KEPT = 1_000
MOST_SENTENCES = 20
HALF_LIFE_DAYS = 14
"""After this many days a session counts half."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a session. `about` are the words that tell what it is about."""

    text: str
    ts: datetime
    position: int
    about: frozenset[str]


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The sentences and the files are the newest first."""

    info: SessionInfo
    document_id: int
    requests: tuple[str, ...]
    """The first and the latest request of the person."""
    calls: int
    edits: int
    failures: int
    files: tuple[str, ...]
    failing: Step | None
    """The last command that failed and did not succeed since."""
    decided: tuple[Sentence, ...]
    left_open: tuple[Sentence, ...]
    finished: tuple[Sentence, ...]


def substance_of(facts: SessionFacts, open_points: int) -> float:
    """How much was done in a session, and how recently. 0 for small talk."""
    done = 3 * log2(1 + facts.edits) + log2(1 + facts.failures) + log2(1 + facts.calls // 5)
    said = 2 * min(len(facts.decided), 4) + 2 * min(open_points, 3) + min(len(facts.finished), 3)
    days = max(0.0, (now() - facts.info.last_turn_at).total_seconds() / 86_400)
    asked = 0.2 if any(not notable.is_small_talk(one) for one in facts.requests) else 0
    return float((done + said + asked) * 0.5 ** (days / HALF_LIFE_DAYS))


_kept: dict[SessionInfo, SessionFacts] = {}
"""The facts of the sessions that were read last. A session that goes on has another number of turns."""
_lock = Lock()


def read_facts(read: Reader, caller: Caller, project: str | None) -> list[SessionFacts]:
    """The facts of the newest sessions that the caller may read; of one project if it is given. Without subagents."""
    found = []
    left = MOST_AT_ONCE
    groups = sharing.readable_groups(read, sharing.reach_of(read, caller), project=project)
    for info in sessions.list_sessions(read, groups, SESSIONS_TO_CHOOSE_FROM, 0):
        with _lock:
            facts = _kept.get(info)
        if facts is None and left > 0 and outlines.SUBAGENT not in info.session_id:
            left -= min(info.turns, MOST_TEXTS)
            facts = _facts_of(read, info)
            with _lock:
                _kept[info] = facts
                if len(_kept) > MOST_KEPT:
                    del _kept[next(iter(_kept))]
        if facts:
            found.append(facts)
    return found


def _facts_of(read: Reader, info: SessionInfo) -> SessionFacts:
    stored = outlines.session(read, Owner(info.agent_id, "", ""), info.session_id)
    document_id = stored.document_id if stored else 0
    steps = steps_of(outlines.turns(read, document_id))
    calls = [step for step in steps if step.kind == "call"]
    edits = [step for step in calls if step.is_edit]
    files = [path for step in reversed(edits) if (path := call_text(step.turn.start).path)]
    asked = [unquoted(step.turn.start) for step in requests_of(steps)]
    decided: list[Sentence] = []
    left_open: list[Sentence] = []
    finished: list[Sentence] = []
    newer_role = "user"  # what comes after the last turn
    for turn in outlines.said(read, document_id, MOST_TEXTS):
        text = unquoted(turn.text)
        if len(text) > LONGEST_TEXT:
            text = f"{text[: LONGEST_TEXT // 2]}\n{text[-LONGEST_TEXT // 2 :]}"
        found = [(decided, notable.decisions(text)), (finished, notable.finished(text))]
        if turn.role == "assistant":
            # What does not work in the middle of the work is not what was left open at its end.
            found.append((left_open, notable.open_points(text, labelled_only=newer_role == "assistant")))
        for kept, sentences in found:
            kept += [Sentence(one, turn.ts, turn.position, notable.content_words(one)) for one in sentences]
        newer_role = turn.role
    return SessionFacts(
        info=info,
        document_id=document_id,
        requests=tuple(asked[:1] + asked[-1:]) if len(asked) > 1 else tuple(asked),
        calls=len(calls),
        edits=len(edits),
        failures=sum(step.is_error for step in steps),
        files=tuple(dict.fromkeys(files)),
        failing=_failing(calls),
        decided=_newest(decided),
        left_open=_newest(left_open),
        finished=_newest(finished),
    )


def requests_of(steps: Sequence[Step]) -> list[Step]:
    """What a person asked for. The texts of our hooks are left out."""
    return [step for step in steps if step.kind == "question" and not is_hook_text(step.turn.start.lstrip())]


def unquoted(text: str) -> str:
    """A prompt without the quotes that `opencode run` puts around it (anomalyco/opencode#43923)."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1] else text


def _newest(found: list[Sentence]) -> tuple[Sentence, ...]:
    """The newest sentences, each once."""
    return tuple({" ".join(one.text.lower().split()): one for one in reversed(found)}.values())[::-1][:MOST_SENTENCES]


def _failing(calls: Sequence[Step]) -> Step | None:
    succeeded = set()
    for step in reversed(calls):
        if (step.tool or "").casefold() in SHELLS:
            command = call_text(step.turn.start).brief
            if step.is_error and command not in succeeded:
                return step
            succeeded.add(command)
    return None


# Open points


@dataclass(frozen=True, slots=True)
class OpenPoint:
    """Something that was left to do, unknown or broken at the end of a session."""

    point: str
    """Its id."""
    text: str
    session_id: str
    agent_id: str
    agent: str | None
    project: str | None
    said_at: datetime
    is_closed: bool = False


def _place(facts: SessionFacts) -> str:
    """Where a point is the same and a report counts: the project, or the session if it has none."""
    project = facts.info.project
    return identity_of(project) if project else f"{facts.info.agent_id}/{facts.info.session_id}"


def points_of(read: Reader, known: Sequence[SessionFacts]) -> list[OpenPoint]:
    """The open points of the sessions, the newest first. A later turn in the same project may say that one is done."""
    closed_at = sessions.closed_points(read)
    newest: dict[str, OpenPoint] = {}
    reports: dict[tuple[str, str], list[tuple[SessionFacts, Sentence]]] = {}
    for facts in known:
        for said in facts.finished:
            for word in said.about:
                reports.setdefault((_place(facts), word), []).append((facts, said))
    for facts in known:
        for said in facts.left_open:
            # The id is the same for every session of a project that names the same point.
            id = sha256("\n".join([_place(facts), *sorted(said.about)]).encode()).hexdigest()[:10]
            if id in newest and newest[id].said_at >= said.ts:
                continue
            is_closed = (id in closed_at and closed_at[id] >= said.ts) or any(
                (report.ts > said.ts or (one is facts and report.position > said.position))
                and notable.settles(report.about, said.about)
                for word in said.about
                for one, report in reports.get((_place(facts), word), ())
            )
            newest[id] = answer_of(
                OpenPoint, facts.info, point=id, text=said.text, said_at=said.ts, is_closed=is_closed
            )
    return sorted(newest.values(), key=lambda point: point.said_at, reverse=True)


def left_open(read: Reader, known: Sequence[SessionFacts]) -> dict[tuple[str, str], list[str]]:
    """The texts of the points that are not closed, by the agent and the id of the session."""
    found: dict[tuple[str, str], list[str]] = {}
    for point in points_of(read, known):
        if not point.is_closed:
            found.setdefault((point.agent_id, point.session_id), []).append(point.text)
    return found
