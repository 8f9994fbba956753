"""An operation, and its faces: how the same thing looks as a tool, a route and a command.

The first parameter's type says what the work needs: a `Reader` gets a snapshot, a `Change` gets a transaction, a
`Workspace` runs on the loop and may wait. The docstring is what a model, a person and the reference read.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

from pydantic import TypeAdapter

from palaver.errors import Forbidden
from palaver.model.audit import Facts, Kind, signature
from palaver.model.people import Caller, TokenScope
from palaver.model.requests import Ask
from palaver.store.engines.database import Change, Reader
from palaver.store.workspaces import Workspace

Show = Callable[[Any], Any]
_LINE_END = re.compile(r"(?<!\n)\n(?!\n)")


@dataclass(frozen=True)
class Tool:
    """The face towards agents. A dotted name is listed with underscores unless asked otherwise.

    `instead` is a field that may come in place of all required ones. Schemas do not list it: those that many clients
    take cannot say so.

    `if_late` makes the answer (from the ask) when the database took too long, where that is no error. `if_away` makes
    it (from the ask and the reason) when the database cannot be reached. `is_text` says that the answer, and any error,
    is text to be read and nothing else. `brings_words` says that it answers with what others wrote, and its
    description warns of it.

    `acts` says that the tool does something as an agent, or answers with that agent's own sessions: its schema offers
    `agent_id` and `token`. `defaults` are arguments that a compact answer has unless the call gives them. `hidden`
    are arguments that are taken but not listed, because few need them and every client would pay for them.
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

    @property
    def plain_name(self) -> str:
        """The name without dots, for the many clients that refuse them."""
        return self.listed or self.name.replace(".", "_")


@dataclass(frozen=True)
class Route:
    """The face towards HTTP.

    `also` gives further names for a field: {"q": "query"}; `must_have` says what to answer (400) when a parameter is
    missing or blank; `from_headers` takes a field from a header; `from_query` are fields that may stand in the address
    although there is a body; `invalid` is the status for a misshapen field, and `complaint` the names under which an
    error says what it is.
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


@dataclass(frozen=True)
class Command:
    """The face towards a terminal. `takes` are the positional arguments, `columns` what a table shows."""

    name: str
    takes: tuple[str, ...] = ()
    rest: str | None = None
    columns: tuple[str, ...] = ()
    rows: str | None = None
    text: str | None = None


Face = Tool | Route | Command
DEEDS: dict[str, Kind] = {"delete": "deletion", "purge": "deletion", "export": "export"}
Works = Literal["read", "change", "wait"]
Before = Callable[[Workspace], Awaitable[None]]


@dataclass(frozen=True)
class Operation:
    name: str
    work: Callable[..., Any]
    kind: Works
    ask: type[Ask]
    answer: Any
    faces: tuple[Face, ...]
    description: str
    needs: TokenScope | None = None
    audited: Kind | None = None
    before: Before | None = None

    @property
    def summary(self) -> str:
        """The first sentence of what it does."""
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
        return self.needs or ("write" if self.kind == "change" else "read")

    async def must_be_allowed(self, here: Workspace, caller: Caller) -> None:
        """Doors ask this before they look at what was sent: who may not do it learns nothing more about it."""
        if self.scope not in caller.scopes:
            if here.keyring:
                await here.keyring.denied(signature(caller), self.name)
            raise Forbidden(f"This token has no '{self.scope}' scope. Ask for one that has: palaver token create.")

    async def perform(self, here: Workspace, caller: Caller, ask: Ask) -> Any:
        """Do it, in the place its kind asks for. What somebody may have to answer for is written down."""
        await self.must_be_allowed(here, caller)
        outcome = "failed"
        try:
            answer = await self._perform(here, caller, ask)
            outcome = "done"
        except Forbidden:
            if here.keyring:
                await here.keyring.denied(signature(caller), self.name)
            raise
        finally:
            here.done["operation", self.name, outcome] += 1
        if self.audited and here.keyring:
            await here.keyring.note(self.audited, signature(caller), self.name, ids_in(ask))
        return answer

    async def _perform(self, here: Workspace, caller: Caller, ask: Ask) -> Any:
        if self.before:
            await self.before(here)
        match self.kind:
            case "read":
                return await here.read(lambda read: self.work(read, caller, ask))
            case "change":
                return await here.change(lambda change: self.work(change, caller, ask))
            case "wait":
                return await cast(Awaitable[Any], self.work(here, caller, ask))


def ids_in(ask: Ask) -> Facts:
    """What was asked about, by its ids alone: no text gets into the log."""
    named = {name: getattr(ask, name) for name in type(ask).model_fields}
    return {name: value for name, value in named.items() if name.endswith("_id") and isinstance(value, str)}


def operation(
    *faces: Face, needs: TokenScope | None = None, audited: Kind | None = None, before: Before | None = None
) -> Callable[[Callable[..., Any]], Operation]:
    """Describe a function as an operation. It registers nothing: `operations/__init__.py` lists them all.

    `needs` is the scope a caller must have, where the kind of work does not say it: who waits may also write.
    `audited` writes down in the audit log that it was done; a name that begins with delete or export says so itself.
    `before` is done first, on the loop: it brings up to date what the operation reads.
    """

    def wrap(work: Callable[..., Any]) -> Operation:
        hints = typing.get_type_hints(work)
        first, _, third = list(inspect.signature(work).parameters)
        kinds: dict[type, Works] = {Reader: "read", Change: "change", Workspace: "wait"}
        description = _LINE_END.sub(" ", inspect.getdoc(work) or "")
        assert description, f"{work.__name__} needs a docstring: it is what models and people read"
        name, works = work.__name__, kinds[hints[first]]
        noted = audited or DEEDS.get(name.partition("_")[0])
        return Operation(name, work, works, hints[third], hints["return"], faces, description, needs, noted, before)

    return wrap


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of an answer."""
    return TypeAdapter(kind).json_schema(mode="serialization")


def shown_type(answer: Any, show: Show | None) -> Any:
    """What a face shows: the operation's answer, or what its `show` makes of it."""
    if show is None:
        return answer
    return typing.get_type_hints(show).get("return", Any)
