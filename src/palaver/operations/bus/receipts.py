"""Receipts: what became of a message at each agent that it names. A message that nobody reads in time comes back."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from palaver.errors import PalaverError
from palaver.model import visibility
from palaver.model.messages import Receipt
from palaver.model.people import Caller
from palaver.model.requests import clamp
from palaver.model.times import now
from palaver.operations.bus.messages import OneMessage, PostMessage, post_message
from palaver.operations.operation import Command, Route, operation
from palaver.store.bus import messages, receipts, threads
from palaver.store.engines.database import Change, Reader
from palaver.store.workspaces import Workspace

RETURNED = "Not read in time by {}."
SENDER = "palaver"
WAITS = ("stored", "delivered")
"""The states of a message that an agent may still read by itself."""
LOOK_AGAIN = 10.0
"""Seconds. That a session has ended is no event of the thread."""


class GetReceipts(OneMessage):
    wait_s: Annotated[int, clamp(0, 86_400)] = 0
    """Seconds to wait until every named agent has read it, or cannot be reached."""
    for_reaction: bool = False
    """Wait until each has reacted to it, too."""


@dataclass(frozen=True, slots=True)
class Receipts:
    message_id: str
    thread_id: str
    receipts: list[Receipt]


@operation(
    Route("GET", "/api/messages/{message_id}/receipts"),
    Command(
        "receipts",
        takes=("message_id",),
        columns=("name", "state", "way", "turn", "at", "reaction", "answer_id", "reason"),
        rows="receipts",
    ),
)
async def get_receipts(workspace: Workspace, caller: Caller, request: GetReceipts) -> Receipts:
    """Get what became of a message at each agent that it names: stored, delivered, read, reacted, declined, answered,
    or not reached and why."""
    states = (*WAITS, "read", "answered") if request.for_reaction else WAITS

    def look(read: Reader) -> Receipts:
        stored = messages.must_exist(read, request.message_id)
        thread = threads.must_exist(read, stored.message.thread_id)
        found = receipts.of_message(read, stored, messages.receivers_of(read, thread, stored.message))
        is_hidden = visibility.hides(caller, stored.message.metadata)
        return Receipts(stored.message.id, thread.thread.id, [] if is_hidden else found)

    def is_enough(found: Receipts) -> bool:
        return not any(one.state in states and not one.reaction for one in found.receipts)

    await workspace.store_read_marks()
    thread_id = (await workspace.read(look)).thread_id
    return await workspace.wait_until(is_enough, look, request.wait_s, thread_id=thread_id, look_again=LOOK_AGAIN)


async def return_unread(workspace: Workspace) -> None:
    """Tell senders of messages that an agent has not read in the time that they gave."""

    def work(change: Change, message_id: str) -> None:
        stored = messages.must_exist(change, message_id)
        thread = threads.must_exist(change, stored.message.thread_id)
        found = receipts.of_message(change, stored, messages.receivers_of(change, thread, stored.message))
        missing = [one for one in found if one.state in (*WAITS, "not_reached")]
        if not receipts.take_return(change, stored) or not missing:
            return
        who = ", ".join(f"{one.name} ({one.state}{f': {one.reason}' if one.reason else ''})" for one in missing)
        told = PostMessage(
            thread_id=thread.thread.id,
            content=RETURNED.format(who),
            author=SENDER,
            role="system",
            reply_to_msg_id=stored.message.id,
        )
        with suppress(PalaverError):  # the thread is closed
            post_message.work(change, Caller("human", SENDER), told)

    for message_id in await workspace.read(lambda read: receipts.due_returns(read, now())):
        await workspace.store_read_marks()
        await workspace.change(partial(work, message_id=message_id))
