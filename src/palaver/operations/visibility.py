"""Who sees what. The only place that masks: it depends on who calls, never on the door they came through."""

from __future__ import annotations

from dataclasses import replace

from palaver.model.events import masked_payload
from palaver.model.messages import HIDDEN, Edit, Message
from palaver.model.people import Caller


def seen_by(caller: Caller, message: Message) -> Message:
    """The message as this caller may see it: what is for humans only is hidden from agents."""
    if not (caller.is_agent and message.is_human_only):
        return message
    return replace(
        message, content=HIDDEN, metadata=masked_payload({"metadata": message.metadata})["metadata"], mentions=[]
    )


def all_seen_by(caller: Caller, messages: list[Message]) -> list[Message]:
    return [seen_by(caller, message) for message in messages]


def history_seen_by(caller: Caller, message: Message, edits: list[Edit]) -> list[Edit]:
    if not (caller.is_agent and message.is_human_only):
        return edits
    return [replace(edit, old_content=HIDDEN) for edit in edits]
