"""Receipts: how far a message got to the agents that it names, from what is stored of their hooks and their posts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson

from palaver.model.messages import Receipt, ReceiptState
from palaver.model.people import HOOKED, Agent
from palaver.model.times import instant, micros
from palaver.model.visibility import is_human_only
from palaver.store.bus import agents, messages
from palaver.store.bus.mentions import Receivers
from palaver.store.bus.messages import StoredMessage
from palaver.store.engines.database import Change, Reader, Row

MOST_POSTS = 100
"""How many later posts of the receivers are searched for an answer."""
DECLINED = ("declined", "decline")

NOBODY = "Nobody has this name."
REMOVED = "The agent was removed."
ENDED = "No session of it runs. It reads this when one starts."
NO_HOOKS = "Its hooks do not report: they are not set up or not trusted. It reads this when it lists the thread."
AT_WORK = "It is at work, and gets this before it stops."
AT_PROMPT = "It is at its prompt and cannot be woken. It gets this with the next prompt."


def of_message(read: Reader, stored: StoredMessage, receivers: Receivers) -> list[Receipt]:
    """The receipts of all agents that a message names, and of names that nobody has."""
    if is_human_only(stored.message.metadata):
        return []
    rows = read.all("receipts", passage_id=stored.passage_id)
    where = {"passage_id": stored.passage_id, "document_id": stored.document_id, "seq": stored.message.seq}
    posts = read.all("posts_of_receivers", **where, limit=MOST_POSTS)
    found = []
    for row in rows:
        if agent := agents.find(read, row["name"]):
            own = [post for post in posts if post["author_id"] == agent.id]
            found.append(_of_agent(read, stored, agent, row, own))
        elif row["name"] not in receivers.people:
            name = receivers.unknown.get(row["name"])
            found.append(Receipt(name or row["name"], None, "not_reached", reason=NOBODY if name else REMOVED))
    return found


def _of_agent(read: Reader, stored: StoredMessage, agent: Agent, row: Row, posts: list[Row]) -> Receipt:
    is_read = row["shown_at"] or row["seen_at"] or (row["read_seq"] or 0) >= stored.message.seq
    way = row["way"] if row["shown_at"] or not is_read else "mcp"
    about: dict[str, Any] = {"name": agent.shown_name, "agent_id": agent.id, "way": way or None}
    about |= {"turn": row["turn"] if row["shown_at"] else None, "reaction": row["reaction"]}
    since = row["offered_at"] or row["seen_at"] or 0
    if answer := _answer(stored, posts, since if is_read else None):
        return Receipt(**about, state="answered", at=instant(answer["created_at"]), answer_id=answer["id"])
    if row["reaction"]:
        state: ReceiptState = "declined" if row["reaction"].casefold() in DECLINED else "reacted"
        return Receipt(**about, state=state, at=instant(row["reacted_at"]))
    if is_read:
        at = row["shown_at"] or row["seen_at"]
        return Receipt(**about, state="read", at=instant(at) if at else None)
    if row["offered_at"]:
        return Receipt(**about, state="delivered", at=instant(row["offered_at"]))
    is_reachable, reason = _waits_for(read, agent)
    return Receipt(**about, state="stored" if is_reachable else "not_reached", reason=reason)


def _answer(stored: StoredMessage, posts: list[Row], read_at: int | None) -> Row | None:
    """The reply of an agent, or else its first post after it has read the message that replies to nothing."""
    replies = [(orjson.loads(post["data"]).get("reply_to_msg_id"), post) for post in posts]
    direct = next((post for to, post in replies if to == stored.message.id), None)
    later = [post for to, post in replies if to is None and read_at is not None and post["created_at"] >= read_at]
    return direct or next(iter(later), None)


def _waits_for(read: Reader, agent: Agent) -> tuple[bool, str | None]:
    """Whether a message can reach the agent now, and what it waits for."""
    running = agents.running_connections(read, agent.id)
    hooks = [one for one in running if one["id_hash"].startswith("hook:")]
    if any(one["waiter"] for one in hooks):
        return True, None
    if hooks:
        return True, AT_PROMPT if all(one["state"] == "idle" for one in hooks) else AT_WORK
    if not running and (agents.has_left(read, agent.id) or not agent.is_online):
        return (True, None) if agents.has_starter(read, agent.id) else (False, ENDED)
    return (False, NO_HOOKS) if agent.client in HOOKED else (True, None)


def return_at(change: Change, message_id: str, due_at: datetime) -> None:
    passage_id = messages.must_exist(change, message_id).passage_id
    change.run("insert_return", passage_id=passage_id, due_at=micros(due_at))


def due_returns(read: Reader, now: datetime) -> list[str]:
    """The ids of messages whose time to be read is over."""
    return [row["id"] for row in read.all("due_returns", now=micros(now))]


def take_return(change: Change, stored: StoredMessage) -> bool:
    return bool(change.run("take_return", passage_id=stored.passage_id))
