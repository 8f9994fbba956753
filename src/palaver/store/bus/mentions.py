"""Messages that are meant for somebody: they mention a name, hand over to it, or reply to its message."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from palaver.model.messages import Message
from palaver.model.times import micros, now
from palaver.store.engines.database import Change

MOST_NAMES = 20
"""At most this many names in the text of one message count as mentions."""

_IN_TEXT = re.compile(r"(?<![\w@/.])@(\w[\w.-]{0,59})")


def names_in(message: Message, replies_to: str | None) -> set[str]:
    """The names a message is meant for, in lower case: from its mentions, its handoff, its text, and its reply."""
    handoff = (message.metadata or {}).get("handoff_target")
    names = [*message.mentions, handoff if isinstance(handoff, str) else "", replies_to or ""]
    if "@" in message.content:
        names += [found[1].rstrip(".-") for found in islice(_IN_TEXT.finditer(message.content), MOST_NAMES)]
    return {key for name in names if (key := key_of(name))}


def key_of(name: str) -> str:
    return name.strip().removeprefix("@").casefold()


def add(change: Change, message: Message, passage_id: int, document_id: int, replies_to: str | None) -> None:
    where = {"passage_id": passage_id, "document_id": document_id, "seq": message.seq}
    change.run_many("insert_mention", [{"name": name, **where} for name in names_in(message, replies_to)])


def mark_seen(change: Change, names: Iterable[str], passage_ids: Iterable[int]) -> None:
    """Store that messages were shown to their receiver, and that it went on."""
    at = micros(now())
    ids = list(passage_ids)
    change.run_many("mention_seen", [{"name": name, "passage_id": one, "at": at} for name in names for one in ids])
