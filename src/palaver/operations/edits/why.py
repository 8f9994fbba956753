"""Why a line is there: the turn that wrote it, who asked for it, what was decided, and what was said about it later."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from palaver.model import visibility
from palaver.model.answers import OmitsDefaults
from palaver.model.people import Caller, title_of
from palaver.model.projects import project_name
from palaver.model.requests import Line, NotBlank, Project, Request, Text, Time
from palaver.model.search import FoundPassage
from palaver.model.sessions import Owner
from palaver.model.times import parse
from palaver.operations import identity
from palaver.operations.catchup.session_facts import requests_of, unquoted
from palaver.operations.edits.line_origin import RecordedEdit, Sought, is_same_file
from palaver.operations.operation import Route, Tool, only, operation
from palaver.operations.sessions.owners import must_be_indexed
from palaver.operations.sessions.steps import Step, call_text, file_edits, steps_of
from palaver.search.scope import readable_scopes
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Lookup, Scope, SearchReader
from palaver.store.library.documents import project_scopes
from palaver.store.search import found_passages
from palaver.store.sessions import outlines
from palaver.store.sessions.outlines import SUBAGENT
from palaver.store.workspaces import Workspace
from palaver.text import fence, notable
from palaver.text.query import AllOf, Phrase
from palaver.text.tokenize import words

MOST_EDITS = 200
"""So many edits with the words of the line are compared; so many more of the same file."""
MOST_FAILED = 20
MOST_SAID, MOST_LOOKED_AT = 3, 60
"""How many decisions and later remarks are told, and among how many passages they are sought."""
LONGEST = 300
CLOCK_SKEW = timedelta(minutes=1)
"""The clock of the machine that made the commit may be behind."""

UNKNOWN = (
    "Unknown. No recorded edit has this line. A person or a shell command may have written it, or the session was not "
    "recorded; palaver import reads the sessions from before."
)
_NAME = re.compile(r"[^\W\d]\w*")
Lines = Annotated[list[Annotated[str, Field(max_length=10_000)]], Field(max_length=20)]


class Why(Request):
    path: Annotated[Line, NotBlank]
    """The file, as a path in the project."""
    line: Annotated[Text, NotBlank]
    """The text of the line."""
    before: Lines | None = None
    """The lines before it, in order. They tell it from equal lines."""
    after: Lines | None = None
    """The lines after it, in order."""
    until: Time | None = None
    """When the line was committed. Edits after that did not write it."""
    old_path: Line | None = None
    """The path before the file was renamed."""
    project: Project | None = None
    """Folder or name of the project. Default: the one you work in."""


@dataclass(frozen=True)
class Remark(OmitsDefaults):
    """What somebody said. `uri` opens it."""

    omit_if_default = ("by", "at")

    text: str
    uri: str
    by: str | None = None
    at: datetime | None = None


@dataclass(frozen=True)
class LineOrigin(OmitsDefaults):
    """Where a line comes from. `text` says all of it in words."""

    omit_if_default = (
        "program", "agent_id", "session_id", "turn_id", "tool", "at", "uri", "request", "decisions", "later",
    )  # fmt: skip

    is_known: bool
    text: str
    program: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    tool: str | None = None
    at: datetime | None = None
    uri: str | None = None
    request: Remark | None = None
    decisions: tuple[Remark, ...] = ()
    later: tuple[Remark, ...] = ()


@operation(
    Tool("why", toolset="edits", brings_words=True, is_text=True, show=only(LineOrigin, "text")),
    Route("POST", "/api/why"),
)
async def why(workspace: Workspace, caller: Caller, request: Why) -> LineOrigin:
    """Find out why a line of a file is there: the session and turn that wrote it, the request, the decision, and what
    was said against it later. The line is found by its text, in the recorded and imported sessions of all programs."""
    return await workspace.search(caller, lambda read: _Search(workspace, read, caller, request).answer())


class _Search:
    def __init__(self, workspace: Workspace, read: SearchReader, caller: Caller, request: Why) -> None:
        must_be_indexed(read)
        agent = identity.agent_of(read, caller)
        self._workspace, self._read, self._caller, self._request = workspace, read, caller, request
        self._project = request.project or caller.client.project or (agent.project if agent else None)

    def answer(self) -> LineOrigin:
        request = self._request
        until = parse(request.until) if request.until else None
        sought = Sought(request.line, request.before or [], request.after or [], until)
        edits = self._edits()
        for _ in range(MOST_FAILED):
            found = sought.origin(edits)
            if found is None:
                break
            at = found_passages.by_ids(self._read, [found.passage_id])[found.passage_id]
            steps = self._workspace.outlines.get(self._read, at.document_id, steps_of)
            number = next((n for n, one in enumerate(steps) if one.turn.position == at.position), None)
            if number is not None and not steps[number].is_error:
                return self._origin(at, steps, number)
            edits = [one for one in edits if one.passage_id != found.passage_id]
        return LineOrigin(False, UNKNOWN)

    def _edits(self) -> list[RecordedEdit]:
        """The edits whose texts have the words of the line: of all files, and further ones of this file."""
        request, name = self._request, self._file_name()
        # In JSON, a line break is the letter n, which sticks to a word at the beginning of the next line.
        is_indented = request.line[:1] == " "
        line = words(request.line)[0 if is_indented else 1 :]
        near = [word for one in [*(request.before or [])[-1:], *(request.after or [])[:1]] for word in words(one)[1:]]
        wanted = list(dict.fromkeys(line if len(line) > 1 else [*line, *near]))[:12]
        of_file = tuple(words(name))
        until = parse(request.until) + CLOCK_SKEW if request.until else None
        ids: dict[int, None] = {}
        for scope in self._scopes(Scope(("sessions", "archive"), titles=False, roles=("tool",))):
            timed = scope.between(None, until)
            for phrases in ([(word,) for word in wanted], [of_file, *((word,) for word in wanted)], [of_file]):
                parts = tuple(Phrase(phrase) for phrase in phrases if phrase)
                query = AllOf(parts) if len(parts) > 1 else parts[0] if parts else None
                if query:
                    ids |= dict.fromkeys(self._read.look_up(Lookup(timed, MOST_EDITS, query=query, order="best")).ids)
        found = []
        for at in found_passages.by_ids(self._read, ids).values():
            for edit in file_edits(call_text(at.text)):
                is_same = any(is_same_file(edit.path, path, self._project_name()) for path in self._paths())
                found.append(RecordedEdit(at.passage_id, at.created_at or at.document_created, edit, is_same))
        return found

    def _paths(self) -> Iterator[str]:
        return filter(None, (self._request.path, self._request.old_path))

    def _file_name(self) -> str:
        return self._request.path.replace("\\", "/").rpartition("/")[2]

    def _project_name(self) -> str:
        return project_name(self._project) if self._project else ""

    def _scopes(self, scope: Scope) -> list[Scope]:
        """What the caller may read of a scope, in the project."""
        here = project_scopes(self._project)
        return readable_scopes(self._read, self._caller, [replace(scope, any_of=(here,)) if here else scope])

    # What is told of the edit

    def _origin(self, at: FoundPassage, steps: list[Step], number: int) -> LineOrigin:
        decided = [*self._decided_in_turns(at, steps, number), *self._said(at, notable.decisions)]
        about = LineOrigin(
            True,
            "",
            program=title_of(at.facts.get("program") or _program(at), None),
            agent_id=at.agent_id,
            session_id=at.facts.get("session_id"),
            turn_id=at.native_id,
            tool=steps[number].tool,
            at=at.created_at,
            uri=_uri(at.source, at.document, at.native_id),
            request=self._request_before(at, steps),
            decisions=tuple({one.text: one for one in decided}.values())[:MOST_SAID],
            later=tuple(self._said(at, notable.open_points, is_later=True)),
        )
        told = _in_words(about)
        return replace(about, text=told if visibility.sees_everything(self._caller) else fence.fenced(told))

    def _request_before(self, at: FoundPassage, steps: list[Step]) -> Remark | None:
        """What the person asked for before a turn. A subagent works on what its parent was asked."""
        document, document_id, asked = at.document, at.document_id, requests_of(steps)
        if at.source == "sessions":
            document = document.partition(SUBAGENT)[0]
            parent = outlines.session(self._read, Owner(at.agent_id or "", "", ""), document.partition("/")[2])
        else:
            document = at.facts.get("parent") or document
            parent = outlines.conversation(self._read, document)
        if parent and parent.document_id != document_id:
            document_id = parent.document_id
            asked = requests_of(self._workspace.outlines.get(self._read, document_id, steps_of))
        else:
            document = at.document
        before = [one.turn for one in asked if one.turn.ts and at.created_at and one.turn.ts <= at.created_at]
        if document == at.document:
            before = [turn for turn in before if turn.position < at.position]
        telling = [turn for turn in before if not notable.is_small_talk(unquoted(turn.start))] or before
        if not telling:
            return None
        turn = telling[-1]
        text = outlines.texts(self._read, document_id, {turn.position}).get(turn.position, turn.start)
        asked_for = notable.one_line(unquoted(text), LONGEST)
        return Remark(asked_for, _uri(at.source, document, turn.id), at=turn.ts)

    def _decided_in_turns(self, at: FoundPassage, steps: list[Step], number: int) -> Iterator[Remark]:
        """What was decided between the question before the edit and the one after it."""
        questions = [n for n, one in enumerate(steps) if one.kind == "question"]
        first = max((n for n in questions if n < number), default=0)
        last = min((n for n in questions if n > number), default=len(steps))
        turns = {one.turn.position: one.turn for one in steps[first:last] if one.kind in ("question", "answer")}
        for position, text in outlines.texts(self._read, at.document_id, set(turns)).items():
            turn = turns[position]
            for sentence in notable.decisions(unquoted(text)):
                yield Remark(sentence, _uri(at.source, at.document, turn.id), turn.role, turn.ts)

    def _said(
        self, at: FoundPassage, notable_in: Callable[[str], list[str]], *, is_later: bool = False
    ) -> list[Remark]:
        """The notable sentences of messages and sessions that name the file, or a name that the line has."""
        names = [self._file_name(), *(one for one in _NAME.findall(self._request.line) if _is_telling(one))]
        phrases = [Phrase(tuple(words(one))) for one in dict.fromkeys(names) if words(one)]
        found: list[Remark] = []
        talk = [Scope(("bus",), titles=False)]
        talk += [replace(Scope(("sessions",), titles=False), roles=("user", "assistant"))] if is_later else []
        scopes = readable_scopes(self._read, self._caller, talk, is_project_first=True)
        for scope in scopes:
            timed = scope.between(at.created_at, None) if is_later else scope
            ids = self._read.look_up(Lookup(timed, MOST_LOOKED_AT, groups=[phrases])).ids
            for one in found_passages.by_ids(self._read, ids).values():
                for sentence in notable_in(one.text):
                    if one.passage_id != at.passage_id and any(name in sentence for name in names):
                        by = SOURCES[one.source].sender_of(one)
                        uri = _uri(one.source, one.document, one.native_id)
                        found.append(Remark(notable.one_line(sentence, LONGEST), uri, by, one.created_at))
        newest = sorted({one.text: one for one in found}.values(), key=lambda one: one.at or at.document_created)
        return newest[-MOST_SAID:]


def _program(at: FoundPassage) -> str:
    """The program of a session that does not name it: that of its agent, or of the import."""
    return at.document.partition(":")[0] if at.source == "archive" else at.author or ""


def _uri(source: str, document: str, native_id: str) -> str:
    return SOURCES[source].uri_of(document, native_id, 1)


def _is_telling(name: str) -> bool:
    """Whether a word of code is likely the name of one thing: export_rows, ExportRows, timeout_s."""
    return len(name) > 5 and ("_" in name.strip("_") or name != name.lower() != name.capitalize())


def _in_words(about: LineOrigin) -> str:
    lines = [f"Written by {about.program} ({about.tool}) on {_day(about.at)}: {about.uri}"]
    if about.request:
        lines.append(f"Asked for on {_day(about.request.at)}: {about.request.text}")
    lines += [f"Decided{_by(one)}: {one.text}" for one in about.decisions]
    lines += [f"Said later{_by(one)}: {one.text} ({one.uri})" for one in about.later]
    return "\n".join(lines)


def _by(remark: Remark) -> str:
    return f" by {remark.by} on {_day(remark.at)}" if remark.by else ""


def _day(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if at else "an unknown day"
