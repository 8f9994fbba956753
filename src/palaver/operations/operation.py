"""Operation: one function with up to three faces, an MCP tool, a REST route and a CLI command.

The type of its first parameter says how it runs: with a `Reader` in a snapshot, with a `SearchReader` in one with a
time limit, with a `Change` in a transaction, with a `Workspace` on the event loop, where it may wait. Its
docstring is the description in all faces and in the reference.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import typing
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

from pydantic import TypeAdapter

from palaver.errors import Forbidden
from palaver.model import visibility
from palaver.model.admin import permissions
from palaver.model.admin.audit import Facts, Kind, signature
from palaver.model.people import Caller, TokenScope
from palaver.model.projects import project_of
from palaver.model.requests import Request
from palaver.store.engines.database import Change, Reader, SearchReader
from palaver.store.workspaces import Workspace

Show = Callable[[Any], Any]
_LINE_END = re.compile(r"(?<!\n)\n(?!\n)")


@dataclass(frozen=True)
class Tool:
    """An operation as MCP tool. A dotted name is listed with underscores unless asked otherwise.

    `instead` is a field that replaces all required ones. Schemas do not list it, as the subset of JSON Schema that
    many clients accept cannot express it.

    `if_late` makes the answer from the request when the database timed out, and that is no error. `if_away` makes it
    from the request and the reason when the database cannot be reached. `is_text`: answers and errors are plain text.
    `brings_words`: answers contain text of others, and the description warns of it.

    `acts`: the tool acts as an agent, or answers with its sessions; the schema has `agent_id` and `token`. `defaults`
    are arguments for compact answers, unless the call has them. `hidden` arguments are accepted but not listed: few
    callers need them, and each one costs tokens. "filters.bus" is the field `bus` of the argument `filters`. `page`
    has the arguments that limit a compact page of results, with their defaults, which are listed for such answers only.
    `marks`: a token that may read is enough, but the tool stores what was read, so it is not called read-only.
    """

    name: str
    toolset: str = "bus"
    show: Show | None = None
    also: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    instead: str = ""
    is_destructive: bool = False
    if_late: Show | None = None
    if_away: Callable[[Any, str], Any] | None = None
    listed: str = ""
    is_text: bool = False
    brings_words: bool = False
    acts: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    page: Mapping[str, Any] = field(default_factory=dict)
    marks: bool = False

    @property
    def plain_name(self) -> str:
        """The name without dots, for the many clients that refuse them."""
        return self.listed or self.name.replace(".", "_")


@dataclass(frozen=True)
class Route:
    """An operation as HTTP route.

    `also` has other names of fields: {"q": "query"}. `must_have` has the error (400) for a missing or blank parameter.
    `from_headers` maps headers to fields. `from_query` are fields that may be in the URL although there is a body.
    `invalid` is the status for an invalid field. `complaint` are the JSON fields that hold the text of an error.
    `ends_with_client`: the work is given up when the client goes away.
    """

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    status: int = 200
    show: Show | None = None
    also: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json"
    headers: Callable[[Any], Mapping[str, str]] | None = None
    from_headers: Mapping[str, str] = field(default_factory=dict)
    from_query: tuple[str, ...] = ()
    must_have: Mapping[str, str] = field(default_factory=dict)
    invalid: int = 422
    complaint: tuple[str, ...] = ("detail",)
    ends_with_client: bool = False


@dataclass(frozen=True)
class Command:
    """An operation as CLI command. `takes` are its positional arguments, `columns` the columns of its table, `defaults`
    the options that it has unless they are given."""

    name: str
    takes: tuple[str, ...] = ()
    rest: str | None = None
    columns: tuple[str, ...] = ()
    rows: str | None = None
    text: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)


Face = Tool | Route | Command
DEEDS: dict[str, Kind] = {"delete": "deletion", "purge": "deletion", "export": "export"}
READ_SECONDS = 5.0
"""Time limit for a read that a caller waits for. Searches have their own, which is a setting."""
Works = Literal["read", "search", "change", "wait"]
Before = Callable[[Workspace], Awaitable[None]]
After = Callable[[Workspace, Caller, Any], None]


@dataclass(frozen=True)
class Operation:
    name: str
    work: Callable[..., Any]
    kind: Works
    request: type[Request]
    answer: Any
    faces: tuple[Face, ...]
    description: str
    audited: Kind | None = None
    before: Before | None = None
    after: After | None = None

    @property
    def summary(self) -> str:
        """The first sentence of the description."""
        return " ".join(self.description.split()).partition(". ")[0].rstrip(".") + "."

    @property
    def tools(self) -> list[Tool]:
        return [face for face in self.faces if isinstance(face, Tool)]

    @property
    def routes(self) -> list[Route]:
        return [face for face in self.faces if isinstance(face, Route)]

    @property
    def commands(self) -> list[Command]:
        return [face for face in self.faces if isinstance(face, Command)]

    @cached_property
    def is_read_only(self) -> bool:
        return self.scope == "read"

    @property
    def scope(self) -> TokenScope:
        return permissions.scope_of(self.name)

    async def must_be_allowed(self, workspace: Workspace, caller: Caller) -> None:
        """Raise Forbidden if the caller lacks the scope or must be a person. Doors call it before they check the
        arguments."""
        try:
            if self.scope not in caller.scopes:
                raise Forbidden(f"This token has no '{self.scope}' scope. Ask for one that has: palaver token create.")
            if permissions.must_be_person(self.name):
                visibility.must_be_person(caller)
        except Forbidden:
            if workspace.keyring:
                await workspace.keyring.denied(signature(caller), self.name)
            raise

    async def perform(self, workspace: Workspace, caller: Caller, request: Request) -> Any:
        """Run the operation for a caller, count it, and write it to the audit log if it is audited."""
        await self.must_be_allowed(workspace, caller)
        outcome = "failed"
        try:
            answer = await self._perform(workspace, caller, request)
            outcome = "done"
        except Forbidden:
            if workspace.keyring:
                await workspace.keyring.denied(signature(caller), self.name)
            raise
        finally:
            workspace.done["operation", self.name, outcome] += 1
        if self.after:
            self.after(workspace, caller, answer)
        if self.audited and workspace.keyring:
            await workspace.keyring.note(self.audited, signature(caller), self.name, ids_in(request))
        return answer

    async def _perform(self, workspace: Workspace, caller: Caller, request: Request) -> Any:
        if self.before:
            await self.before(workspace)
        request = await _with_project(workspace, request)
        match self.kind:
            case "read":
                return await workspace.read(lambda read: self.work(read, caller, request), READ_SECONDS)
            case "search":
                return await workspace.search(caller, lambda read: self.work(read, caller, request))
            case "change":
                return await workspace.change(lambda change: self.work(change, caller, request))
            case "wait":
                return await cast(Awaitable[Any], self.work(workspace, caller, request))


async def _with_project(workspace: Workspace, request: Request) -> Request:
    """The request with its project in place of a folder. A folder on another machine is not looked at."""
    folder = getattr(request, "project", None)
    if not isinstance(folder, str) or not os.path.isabs(folder):
        return request
    project = await asyncio.to_thread(project_of, folder, is_here=workspace.settings.is_loopback)
    told = {"folder": folder} if "folder" in type(request).model_fields else {}
    return request.model_copy(update={"project": project, **told})


def ids_in(request: Request) -> Facts:
    """The ids in a request, for the audit log. No text gets into the log."""
    named = {name: getattr(request, name) for name in type(request).model_fields}
    return {name: value for name, value in named.items() if name.endswith("_id") and isinstance(value, str)}


def operation(
    *faces: Face,
    audited: Kind | None = None,
    before: Before | None = None,
    after: After | None = None,
) -> Callable[[Callable[..., Any]], Operation]:
    """Decorator that makes a function an operation. It registers nothing: `operations/table.py` lists them all.

    `model/admin/permissions.py` says who may use it. `audited` is the kind of its entry in the audit log; operations
    named delete_… and export_… have one anyway. `before` runs first, on the event loop, and brings the data up to date.
    `after` runs last, with the answer.
    """

    def wrap(work: Callable[..., Any]) -> Operation:
        hints = typing.get_type_hints(work)
        first, _, third = list(inspect.signature(work).parameters)
        kinds: dict[type, Works] = {Reader: "read", SearchReader: "search", Change: "change", Workspace: "wait"}
        description = _LINE_END.sub(" ", inspect.getdoc(work) or "")
        assert description, f"{work.__name__} needs a docstring: it is what models and people read"
        name, works = work.__name__, kinds[hints[first]]
        noted = audited or DEEDS.get(name.partition("_")[0])
        return Operation(name, work, works, hints[third], hints["return"], faces, description, noted, before, after)

    return wrap


def schema_of(kind: Any, reference: str = "#/$defs/{model}") -> dict[str, Any]:
    """The JSON schema of an answer."""
    return TypeAdapter(kind).json_schema(mode="serialization", ref_template=reference)


def only(answer: type[Any], name: str) -> Show:
    """A `show` that answers with one field of the answer alone."""

    def show(value: Any) -> Any:
        return getattr(value, name)

    show.__annotations__["return"] = typing.get_type_hints(answer)[name]
    return show


def shown_type(answer: Any, show: Show | None) -> Any:
    """The type a face answers with: the operation's answer, or the result of its `show`."""
    if show is None:
        return answer
    return typing.get_type_hints(show).get("return", Any)
