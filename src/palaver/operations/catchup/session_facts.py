"""What was done in a session: requests, edits, failures, decisions and open points. Sessions are chosen by it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from math import log2
from threading import Lock

from palaver.model.projects import identity_of
from palaver.model.sessions import Owner
from palaver.model.times import now
from palaver.operations.sessions.steps import SHELLS, Step, call_text, steps_of
from palaver.store.engines.database import Reader
from palaver.store.sessions import outlines
from palaver.store.sessions.sessions import SessionInfo
from palaver.text import notable
from palaver.text.hook_text import is_hook_text

MOST_TEXTS = 80
"""Only so many of the last texts of a session are read for decisions and open points."""
MOST_TURNS = 20_000
"""One answer reads at most this many turns that are not in the cache."""
MOST_KEPT = 1_000
MOST_SENTENCES = 20
HALF_LIFE_DAYS = 14
"""After this many days a session counts half."""


@dataclass(frozen=True, slots=True)
class Said:
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
    decided: tuple[Said, ...]
    left_open: tuple[Said, ...]
    finished: tuple[Said, ...]


def substance_of(facts: SessionFacts, open_points: int) -> float:
    """How much was done in a session, and how recently. 0 for small talk."""
    done = 3 * log2(1 + facts.edits) + log2(1 + facts.failures) + log2(1 + facts.calls // 5)
    said = 2 * min(len(facts.decided), 4) + 2 * min(open_points, 3) + min(len(facts.finished), 3)
    days = max(0.0, (now() - facts.info.last_turn_at).total_seconds() / 86_400)
    return float((done + said) * 0.5 ** (days / HALF_LIFE_DAYS))


_kept: OrderedDict[SessionInfo, SessionFacts] = OrderedDict()
"""The facts of the sessions that were read last. A session that goes on has another number of turns."""
_lock = Lock()


def read_facts(read: Reader, infos: Iterable[SessionInfo]) -> list[SessionFacts]:
    """The facts of these sessions, without the sessions of subagents."""
    found = []
    left = MOST_TURNS
    for info in infos:
        with _lock:
            facts = _kept.get(info)
        if facts is None and (left := left - info.turns) >= 0 and outlines.SUBAGENT not in info.session_id:
            facts = _facts_of(read, info)
            with _lock:
                _kept[info] = facts
                while len(_kept) > MOST_KEPT:
                    _kept.popitem(last=False)
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
    asked = [
        step.turn.start for step in steps if step.kind == "question" and not is_hook_text(step.turn.start.lstrip())
    ]
    decided: list[Said] = []
    left_open: list[Said] = []
    finished: list[Said] = []
    newer_role = "user"  # what comes after the last turn
    for turn in outlines.said(read, document_id, MOST_TEXTS):
        found = [(decided, notable.decisions(turn.text)), (finished, notable.finished(turn.text))]
        if turn.role == "assistant":
            # What does not work in the middle of the work is not what was left open at its end.
            found.append((left_open, notable.open_points(turn.text, labelled_only=newer_role == "assistant")))
        for kept, sentences in found:
            kept += [Said(one, turn.ts, turn.position, notable.content_words(one)) for one in sentences]
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


def _newest(found: list[Said]) -> tuple[Said, ...]:
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


def point_id(facts: SessionFacts, said: Said) -> str:
    """The same for every session of a project that names the same point."""
    place = identity_of(facts.info.project) if facts.info.project else f"{facts.info.agent_id}/{facts.info.session_id}"
    return sha256("\n".join([place, *sorted(said.about)]).encode()).hexdigest()[:10]


def points_of(known: Sequence[SessionFacts], closed_at: Mapping[str, datetime]) -> list[OpenPoint]:
    """The open points of the sessions, the newest first. A later turn in the same project may say that one is done."""
    newest: dict[str, OpenPoint] = {}
    for facts in known:
        place = identity_of(facts.info.project or "")
        later = [one for one in known if identity_of(one.info.project or "") == place and (place or one is facts)]
        for said in facts.left_open:
            id = point_id(facts, said)
            if id in newest and newest[id].said_at >= said.ts:
                continue
            is_closed = (id in closed_at and closed_at[id] >= said.ts) or any(
                (report.ts > said.ts or (one is facts and report.position > said.position))
                and notable.settles(report.about, said.about)
                for one in later
                for report in one.finished
            )
            info = facts.info
            newest[id] = OpenPoint(
                id, said.text, info.session_id, info.agent_id, info.agent, info.project, said.ts, is_closed
            )
    return sorted(newest.values(), key=lambda point: point.said_at, reverse=True)
