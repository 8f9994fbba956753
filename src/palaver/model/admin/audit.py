"""Audit log entries: who did what, when and where. They never contain message text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from palaver.model.people import Caller

Kind = Literal["login", "logout", "token", "workspace", "denied", "export", "deletion", "upkeep"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Facts = dict[str, str | int]

TERMINAL = "terminal"
"""The `who` of entries by a command that works on the data directly."""


@dataclass(frozen=True, slots=True)
class Deed:
    """An audit entry as the people of its workspace see it."""

    at: datetime
    kind: str
    who: str
    what: str
    facts: Facts


@dataclass(frozen=True, slots=True)
class Entry:
    """An audit entry in the log of the whole server. Its hash covers the entry before it."""

    id: int
    at: datetime
    workspace: str | None
    kind: str
    who: str
    what: str
    facts: Facts
    hash: str

    @property
    def deed(self) -> Deed:
        return Deed(self.at, self.kind, self.who, self.what, self.facts)


def signature(caller: Caller) -> str:
    """The caller, as named in the audit log."""
    if caller.token_id:
        return f"{caller.kind} {caller.name} (token {caller.token_id})"
    return f"{caller.kind} without a token"
