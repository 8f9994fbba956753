"""What people bring: conversations that were held elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Said:
    """Something that was said. `ts` is None where nothing tells when."""

    id: str
    role: str
    text: str
    ts: datetime | None


@dataclass(frozen=True, slots=True)
class Conversation:
    """An imported conversation. Its id is the same in every export of it."""

    id: str
    origin: str
    title: str
    created_at: datetime | None
    updated_at: datetime | None
    messages: tuple[Said, ...]
