"""Claims on files: hold files of a project for one agent or person, free them, list who holds what."""

from __future__ import annotations

from palaver.model.claims import Claim
from palaver.model.people import Caller
from palaver.store.bus import claims as store
from palaver.store.engines.database import Reader


def claims_on(
    read: Reader, caller: Caller, project: str, path: str, not_of_agent: str | None, *, ignores_case: bool = False
) -> list[Claim]:
    """The claims of others on a file that the caller may see. The path starts at the root of the worktree."""
    return [*store.on_path(read, caller, project, path, not_of_agent, ignores_case=ignores_case)]
