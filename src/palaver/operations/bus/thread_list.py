"""Thread list for the console: each thread with its last message and recent participants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from palaver.model import visibility
from palaver.model.messages import Thread
from palaver.model.people import Caller
from palaver.model.requests import Request, clamp
from palaver.operations import identity
from palaver.operations.operation import Route, operation
from palaver.store.bus import read_marks, threads
from palaver.store.engines.database import Reader


class ListThreadPreviews(Request):
    include_archived: bool = False
    """Also list archived threads."""
    limit: Annotated[int, clamp(1, 500)] = 200
    """Maximum number of threads, up to 500."""
    offset: Annotated[int, clamp(0, 2**31)] = 0
    """Number of threads to skip."""


@dataclass(frozen=True, slots=True)
class LastMessage:
    """The start of the last message."""

    seq: int
    author_name: str
    text: str
    is_human_only: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ThreadPreview:
    """A thread, the start of its last message, and its recent participants, latest first. `read_seq` is the last
    message that you have read."""

    thread: Thread
    last_message: LastMessage | None
    participants: list[str]
    read_seq: int


@dataclass(frozen=True, slots=True)
class ThreadPreviews:
    """`is_first_visit`: you have no read marks yet, so everything counts as read."""

    threads: list[ThreadPreview]
    has_more: bool
    is_first_visit: bool


@operation(Route("GET", "/api/threads/glance"))
def list_thread_previews(read: Reader, caller: Caller, request: ListThreadPreviews) -> ThreadPreviews:
    """List threads, latest message first, each with the start of its last message and its recent participants."""
    reader = read_marks.reader_of(caller, identity.agent_of(read, caller))
    found = threads.latest_threads(
        read, reader.key, include_archived=request.include_archived, limit=request.limit + 1, offset=request.offset
    )
    previews = []
    for one in found[: request.limit]:
        last = one.last_few[-1] if one.last_few else None
        preview = None
        if last:
            text = visibility.mask_text(caller, last.metadata, last.text)
            is_human_only = visibility.is_human_only(last.metadata)
            preview = LastMessage(last.seq, last.author_name, text, is_human_only, last.created_at)
        participants = dict.fromkeys(message.author_name for message in reversed(one.last_few))
        seq = read_marks.seq_without_mark(read, reader, one.stored) if one.read_seq is None else one.read_seq
        previews.append(ThreadPreview(one.stored.thread, preview, list(participants), seq))
    return ThreadPreviews(previews, len(found) > request.limit, not read_marks.is_known(read, reader))
