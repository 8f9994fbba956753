"""Claims: who wants to edit which files of a project alone, or with others, until when and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

ClaimKind = Literal["exclusive", "shared"]


@dataclass(frozen=True, slots=True)
class Claim:
    claim_id: str
    project: str
    pattern: str
    """Relative to the root of the worktree."""
    kind: ClaimKind
    holder: str
    """The name of the agent or the person."""
    agent_id: str | None
    because: str
    created_at: datetime
    expires_at: datetime
