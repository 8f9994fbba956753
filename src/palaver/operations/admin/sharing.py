"""How far agents read sessions: a setting of the workspace, which people change."""

from __future__ import annotations

from dataclasses import dataclass

from palaver.model.people import Caller
from palaver.model.requests import NoArguments, Request
from palaver.model.visibility import Sharing
from palaver.operations.operation import Command, Route, operation
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import sharing


class SetSharing(Request):
    level: Sharing | None = None
    """agent (only their own), person (their owner's agents in the same project) or project (everybody's in the same
    project). Default: only show the level."""


@dataclass(frozen=True, slots=True)
class SharingLevel:
    level: Sharing


@operation(Route("GET", "/api/sharing"))
def get_sharing(read: Reader, caller: Caller, request: NoArguments) -> SharingLevel:
    """Show whose sessions the agents of this workspace read."""
    return SharingLevel(sharing.level_of(read))


@operation(Route("PUT", "/api/sharing"), Command("sharing", takes=("level",), text="level"), audited="workspace")
def set_sharing(change: Change, caller: Caller, request: SetSharing) -> SharingLevel:
    """Show or change whose sessions the agents of this workspace read, besides their own."""
    if request.level:
        sharing.set_level(change, request.level)
    return SharingLevel(sharing.level_of(change))
