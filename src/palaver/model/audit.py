"""What somebody may have to answer for: who did what, when and where. Never what was said."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from palaver.model.people import Caller

Kind = Literal["login", "logout", "token", "workspace", "denied", "export", "deletion", "upkeep"]
KINDS: tuple[Kind, ...] = ("login", "logout", "token", "workspace", "denied", "export", "deletion", "upkeep")
Facts = dict[str, str | int]

TERMINAL = "terminal"
"""Who works on the data itself, without a door in between."""


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that was done (or tried), as a workspace's own people may see it."""

    at: datetime
    kind: str
    who: str
    what: str
    facts: Facts


@dataclass(frozen=True, slots=True)
class Entry:
    """The same in the log of the whole house: numbered, and bound by its hash to the entry before it."""

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
    """A caller as the log names it."""
    if caller.token_id:
        return f"{caller.kind} {caller.name} (token {caller.token_id})"
    return f"{caller.kind} without a token"
