"""Find what ended an error before, list what is known, and mark what is wrong.

Nothing is stored: the words of the error find its earlier places in the index of sessions, so whoever may not read a
session hears nothing of it, and what is deleted is gone. From other projects only commands are told that mean the same
everywhere, as a stranger's repository may print any error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Annotated

from pydantic import Field

from palaver.errors import NotFound
from palaver.model import visibility
from palaver.model.answers import OmitsDefaults
from palaver.model.people import Caller, title_of
from palaver.model.projects import is_called, project_name, same_project
from palaver.model.requests import Line, NotBlank, Project, Request, Text
from palaver.model.search import FoundPassage
from palaver.model.times import now
from palaver.operations import identity
from palaver.operations.fixes.failures import Failure, Fix, failures_of
from palaver.operations.fixes.shell_commands import LONGEST, is_general
from palaver.operations.operation import Route, Tool, only, operation
from palaver.operations.sessions.owners import must_be_indexed
from palaver.operations.sessions.private import privacy_rules
from palaver.operations.sessions.steps import steps_of
from palaver.search.scope import readable_scopes
from palaver.search.sources import SOURCES
from palaver.store.bus import agents
from palaver.store.engines.database import Change, Groups, Lookup, Reader, Scope, SearchReader
from palaver.store.library.documents import document_scope
from palaver.store.search import found_passages
from palaver.store.sessions import outlines, sessions, sharing
from palaver.text import fence, notable
from palaver.text.error_signature import HEAD, TAIL, ErrorSignature, decisive_part, signature_of
from palaver.text.query import Phrase
from palaver.text.secrets import masked
from palaver.text.tokenize import words

MOST_DIGITS = 19
AT_ONCE, MOST_SESSIONS, MOST_LOOK_UPS = 40, 12, 4
"""So many places of an error are looked up at once; its latest sessions are read. One with a loop takes one place."""
BEFORE, AFTER, LONGEST_WINDOW = 12, 200, 500
"""So many turns are read before the first failure and after the last one."""
LISTED_SESSIONS, MOST_LISTED = 60, 100
MOST_WORDS = 12
SURE_SHARE = 0.6
"""What ended an error must have ended it in this share of the sessions in which it is known what did."""
UNKNOWN = "Unknown. No recorded session that you may read had this error and ended it."
NO_ERROR = "No line of this text tells an error."
_SECRET = re.compile(r"-{1,2}(?:password|passwd|token|secret|api-?key|auth)\b|://[^\s/]*@|bearer ", re.IGNORECASE)
_ERROR_WORDS = ("exit", "exited", "error", "failed", "fatal", "traceback")
POINT = "fix:"
"""How the ids of fixes begin among the closed points."""


class FindFix(Request):
    error: Annotated[Text, NotBlank]
    """The output of the command or tool that failed."""
    project: Project | None = None
    """Folder or name of the project. Default: the one you work in."""


class ListFixes(Request):
    project: Project | None = None
    """Folder or name of the project. Default: the one you work in."""


class MarkFixWrong(Request):
    fix_id: Annotated[Line, Field(max_length=40), NotBlank]
    """Id of the fix."""


@dataclass(frozen=True)
class KnownFix(OmitsDefaults):
    """What ended an error. `text` says it in words. `count`: in so many sessions."""

    omit_if_default = ("fix_id", "error", "commands", "edits", "count", "program", "project", "at", "uri")

    is_known: bool
    text: str
    fix_id: str = ""
    error: str = ""
    commands: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()
    count: int = 0
    program: str | None = None
    project: str | None = None
    at: datetime | None = None
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class KnownFixes:
    fixes: list[KnownFix]


@dataclass(frozen=True, slots=True)
class MarkedFix:
    fix_id: str


@operation(
    Tool("fix", toolset="edits", brings_words=True, is_text=True, show=only(KnownFix, "text")),
    Route("POST", "/api/fix"),
)
def find_fix(read: SearchReader, caller: Caller, request: FindFix) -> KnownFix:
    """Find out what ended the same error before, in recorded sessions of all programs: commands, or edits of this
    project. The command may be wrong for you: look at it before you run it."""
    must_be_indexed(read)
    return FixSearch(read, caller, request.project).fix(request.error)


@operation(Tool("fixes", toolset="edits", brings_words=True), Route("GET", "/api/fixes"))
def list_fixes(read: SearchReader, caller: Caller, request: ListFixes) -> KnownFixes:
    """List errors of the latest recorded sessions that are known to be fixed, and what ended them."""
    must_be_indexed(read)
    return KnownFixes(FixSearch(read, caller, request.project).all())


@operation(Route("POST", "/api/fixes/{fix_id}/wrong"))
def mark_fix_wrong(change: Change, caller: Caller, request: MarkFixWrong) -> MarkedFix:
    """Mark a fix as wrong, so that palaver does not tell it again."""
    must_be_indexed(change)
    place, _, mark = request.fix_id.partition("-")
    at = found_passages.by_id(change, int(place)) if place.isdecimal() and len(place) < MOST_DIGITS else None
    search = FixSearch(change, caller, None)
    found = search.in_session(at.document_id, [at.position]) if at else []
    if mark not in {_mark_of(one.failure.signature, option) for one in found for option in _options(one, True)}:
        raise NotFound("fix", request.fix_id, "List the fixes to see their ids.")
    sessions.close_point(change, POINT + mark, now(), caller.acting_agent or caller.name)
    return MarkedFix(request.fix_id)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A failure in a session. `is_here`: in the project of the caller."""

    failure: Failure
    at: FoundPassage
    is_here: bool

    @property
    def time(self) -> datetime:
        return self.at.created_at or self.at.document_created


class FixSearch:
    """`without` are sessions that are left out."""

    def __init__(self, read: Reader, caller: Caller, project: str | None, without: Iterable[str] = ()) -> None:
        agent = identity.agent_of(read, caller)
        self._read, self._caller, self._without = read, caller, frozenset(without)
        self._project = project or caller.client.project or (agent.project if agent else None) or ""
        self._reach = sharing.reach_of(read, caller)
        self._privacy = privacy_rules(read.settings)
        self._wrong = {point for point in sessions.closed_points(read) if point.startswith(POINT)}

    def fix(self, error: str) -> KnownFix:
        signature = signature_of(masked(decisive_part(error)))
        if signature is None:
            return KnownFix(False, NO_ERROR)
        wanted = list(dict.fromkeys(words(signature.line)))[:MOST_WORDS]
        found = self._occurrences([[Phrase((word,))] for word in wanted], MOST_SESSIONS) if wanted else []
        same = [one for one in found if one.failure.signature.matches(signature)]
        return self._choose(same, error) or KnownFix(False, UNKNOWN)

    def all(self) -> list[KnownFix]:
        groups: list[list[Occurrence]] = []
        for one in self._occurrences([[Phrase((word,)) for word in _ERROR_WORDS]], LISTED_SESSIONS):
            signature = one.failure.signature
            same = next((some for some in groups if some[0].failure.signature.matches(signature)), None)
            if same is None:
                groups.append([one])
            else:
                same.append(one)
        found = [known for some in groups if (known := self._choose(some, some[0].failure.output))]
        return sorted(found, key=lambda known: -known.count)[:MOST_LISTED]

    # Where an error was

    def _occurrences(self, groups: Groups, most: int) -> list[Occurrence]:
        """The failures of the latest sessions with these words in the result of a tool."""
        places: dict[int, list[int]] = {}
        results = Scope(("sessions", "archive"), titles=False, roles=("tool",))
        for scope in readable_scopes(self._read, self._caller, [results]):
            limited, here = scope, len(places)
            for _ in range(MOST_LOOK_UPS):
                some = found_passages.candidates(self._read, self._read.look_up(Lookup(limited, AT_ONCE, groups)).ids)
                for one in some:
                    places.setdefault(one.document_id, []).append(one.position)
                if len(places) - here >= most or len(some) < AT_ONCE:
                    break
                seen = {document_scope(one.document_id) for one in some}
                limited = replace(limited, without=(*limited.without, *seen))
        return [
            one
            for document_id in sorted(places, reverse=True)[:most]
            for one in self.in_session(document_id, places[document_id])
        ]

    def in_session(self, document_id: int, positions: Sequence[int]) -> list[Occurrence]:
        at = found_passages.document(self._read, document_id)
        project = at.facts.get("project") or ""
        if not self._reach.may_open(at) or self._privacy.why(project) or _session_id(at) in self._without:
            return []
        last = max(positions) + AFTER
        first = max(min(positions) - BEFORE, last - LONGEST_WINDOW)
        turns = outlines.turns_between(self._read, document_id, first, last, HEAD, TAIL)
        by_position = {turn.position: turn for turn in turns}
        is_here = bool(self._project) and (same_project(project, self._project) or is_called(project, self._project))
        return [
            Occurrence(failure, replace(at, native_id=turn.id, created_at=turn.ts), is_here)
            for failure in failures_of(steps_of(turns))
            if (turn := by_position.get(failure.position))
        ]

    # Which fix is told

    def _choose(self, found: Sequence[Occurrence], error: str) -> KnownFix | None:
        """The fix that surely ended an error: one that others had, too, or the only one that is known."""
        for some in ([one for one in found if one.is_here], found):
            if known := self._surest(some, found, error):
                return known
        return None

    def _surest(self, some: Sequence[Occurrence], found: Sequence[Occurrence], error: str) -> KnownFix | None:
        ended = [one for one in some if one.failure.fix or one.failure.ended_alone]
        against = Counter(command for one in found for command in set(one.failure.tried))
        options: dict[Fix, list[Occurrence]] = {}
        for one in ended:
            for option in _options(one, one.is_here):
                if not _names_another(option, one, error):
                    options.setdefault(option, []).append(one)
        for option, cases in sorted(options.items(), key=lambda item: -len(item[1])):
            sessions_of = {case.at.document_id for case in cases}
            is_alone = any(_size(case.failure.fix) == 1 for case in cases)
            is_enough = is_alone or len(sessions_of) > 1 or _is_related(option, cases[0].failure.signature)
            failed = max((against[command] for command in option.commands), default=0)
            share = len(sessions_of) / len({one.at.document_id for one in ended})
            if is_enough and share >= SURE_SHARE and failed < len(sessions_of):
                if POINT + _mark_of(cases[0].failure.signature, option) in self._wrong:
                    return None
                return self._told(option, cases, len(sessions_of))
        return None

    def _told(self, option: Fix, cases: Sequence[Occurrence], count: int) -> KnownFix:
        first = min(cases, key=lambda case: case.time)
        signature, at = first.failure.signature, first.at
        project = at.facts.get("project") or None
        agent = agents.find(self._read, at.agent_id) if at.agent_id else None
        imported = at.document.partition(":")[0] if at.source == "archive" else ""
        recorded = (agent.client or agent.slug) if agent else "an agent"
        program = title_of(at.facts.get("program") or imported or recorded, None)
        is_own = self._reach.is_everything or at.agent_id in self._reach.own or at.agent_id is None
        files, changed = {edit.file for edit in option.edits}, first.failure.fix or option
        edits = tuple(f"{edit.file} (`{edit.line}`)" for edit in changed.edits if edit.file in files)
        what = " and ".join(f"`{command}`" for command in option.commands) or f"an edit of {' and '.join(edits)}"
        times = "" if count == 1 else " (once since)" if count == 2 else f" ({count - 1} times since)"
        where = f" in {notable.one_line(project_name(project), 60)}" if project and not first.is_here else ""
        who = program if is_own else f"A colleague's {program}"
        text = f"{who} had this error {_day(first.time)}{where}; {what} ended it{times}."
        place = found_passages.passage_by_id(self._read, at.document_id, at.native_id)
        id = f"{place.id if place else 0}-{_mark_of(signature, option)}"
        text = text if visibility.sees_everything(self._caller) else fence.fenced(text)
        return KnownFix(
            True, text, id, signature.line, option.commands, edits, count, program, project, first.time,
            SOURCES[at.source].uri_of(at.document, at.native_id, 1),
        )  # fmt: skip


def _mark_of(signature: ErrorSignature, option: Fix) -> str:
    """What tells a fix of an error from others."""
    return blake2b(f"{signature.line}\0{option}".encode("utf-8", "replace"), digest_size=6).hexdigest()


def _options(one: Occurrence, is_here: bool) -> list[Fix]:
    """What may be told of a session: each of its commands, and each of its edits if they are of this project."""
    fix = one.failure.fix or Fix()
    options = [Fix(commands=(command,)) for command in fix.commands]
    options += [Fix(edits=(replace(edit, line=""),)) for edit in fix.edits if is_here]
    return [option for option in options if _may_be_told(option, is_here)]


def _may_be_told(option: Fix, is_here: bool) -> bool:
    texts = option.commands
    if any(len(text) > LONGEST or masked(text) != text or _SECRET.search(text) for text in texts):
        return False
    return is_here or all(map(is_general, option.commands))


def _size(fix: Fix | None) -> int:
    return len(fix.commands) + len(fix.edits) if fix else 0


def _is_related(option: Fix, signature: ErrorSignature) -> bool:
    """Whether a command or a file has the name of what the error names: 'yaml' and 'pip install pyyaml'."""
    named = {word for word in words(signature.line) if len(word) > 3}
    pairs = (sorted((name, word), key=len) for name in named for word in _arguments(option))
    return any(short in long and 2 * len(short) > len(long) for short, long in pairs)


def _names_another(option: Fix, case: Occurrence, error: str) -> bool:
    """Whether a command names what its own error named, and this error does not."""
    before, here = case.failure.output.casefold(), error.casefold()
    return any(word in before and word not in here for word in _arguments(option) if option.commands)


def _arguments(option: Fix) -> list[str]:
    texts = [" ".join(command.split()[1:]) for command in option.commands] + [edit.file for edit in option.edits]
    return [word for text in texts for word in words(text) if len(word) > 3 and word not in ("install", "update")]


def _session_id(at: FoundPassage) -> str:
    return str(at.facts.get("session_id") or at.document.partition(":")[2])


def _day(at: datetime) -> str:
    age = now() - at
    if age < timedelta(days=1):
        return "today" if now().date() == at.date() else "yesterday"
    return f"on {at:%A}" if age < timedelta(days=6) else f"on {at:%Y-%m-%d}"
