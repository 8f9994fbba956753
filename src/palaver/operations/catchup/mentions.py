"""The mentions inbox: messages that are meant for the caller, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from palaver.model import visibility
from palaver.model.answers import answer_of
from palaver.model.people import Caller
from palaver.model.requests import Line, Request, clamp
from palaver.model.times import now
from palaver.operations import identity
from palaver.operations.operation import Route, operation
from palaver.store.bus import read_marks
from palaver.store.bus.read_marks import ThreadReader, reader_of
from palaver.store.engines.database import Reader
from palaver.text import notable

LOOK_BACK = timedelta(days=90)
TEXT_LENGTH = 300
"""Maximum characters of a message in the answer."""


class ListMentions(Request):
    name: Annotated[Line, Field(max_length=200)] | None = None
    """Where no token is required: the name whose mentions are listed. Default: you."""
    limit: Annotated[int, clamp(1, 200)] = 50
    """Maximum number of messages, up to 200."""


@dataclass(frozen=True, slots=True)
class MentionItem:
    """A message that names you, replies to you or is handed to you. `is_read`: you have read the thread up to it."""

    message_id: str
    thread_id: str
    topic: str
    seq: int
    author: str
    created_at: datetime
    text: str
    is_read: bool


@operation(Route("GET", "/api/mentions"))
def list_mentions(read: Reader, caller: Caller, request: ListMentions) -> list[MentionItem]:
    """List the messages of the last 90 days that are meant for you, newest first."""
    own = reader_of(caller, identity.agent_of(read, caller))
    is_named = request.name and own.agent is None and not caller.is_authenticated
    reader = ThreadReader(None, request.name) if is_named else own
    found = read_marks.mentions_of(read, reader, now() - LOOK_BACK, request.limit, marks_of=own)
    return [
        answer_of(
            MentionItem,
            one.message,
            topic=one.topic,
            author=one.message.author_name,
            text=notable.one_line(one.message.content, TEXT_LENGTH),
            is_read=one.is_read,
        )
        for one in reversed(found)
        if not visibility.hides(caller, one.message.metadata)
    ]
