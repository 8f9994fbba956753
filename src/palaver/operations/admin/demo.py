"""Demo data (`palaver demo`): fill a workspace with a story of a small team over three weeks.

The story is a table (demo_story.toml). Everything in it is done with the usual operations, only at an earlier time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from palaver.errors import Refused
from palaver.model.library import Conversation, Said
from palaver.model.messages import Message, Role
from palaver.model.people import Agent, Caller
from palaver.model.requests import NoArguments
from palaver.model.times import as_if_at, iso, now
from palaver.operations.bus import reactions, threads
from palaver.operations.bus.connect import get_status
from palaver.operations.bus.messages import EditMessage, PostMessage, edit_message, post_message
from palaver.operations.library import characters, chats, media, notes, prompts
from palaver.operations.sessions import recording
from palaver.store.bus import agents
from palaver.store.engines.database import Change
from palaver.store.library import archive
from palaver.store.workspaces import Workspace

Story = Mapping[str, Any]
HUMAN = Caller(kind="human", name="demo")
LIBRARY = {
    "notes": notes.create_note,
    "prompts": prompts.create_prompt,
    "characters": characters.create_character,
    "chats": chats.create_chat,
    "media": media.create_media,
}
SESSION_DAYS = 24
"""The sessions of the story are spread over this many days."""
_SPAN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?")


def before(moment: datetime, ago: str) -> datetime:
    """`2d3h10m` before that moment. Whole days count back from 15:00, as people work by day."""
    found = _SPAN.fullmatch(ago)
    assert found, f"{ago!r} is not a span of time"
    days, hours, minutes = (int(part or 0) for part in found.groups())
    start = moment.replace(hour=15, minute=0) if days else moment
    return start - timedelta(days=days, hours=hours, minutes=minutes)


@dataclass(frozen=True, slots=True)
class DemoCounts:
    """How much was added."""

    threads: int
    messages: int
    turns: int
    kept: int


async def tell(workspace: Workspace, story: Story, *, anyway: bool = False) -> DemoCounts:
    """Add the story to a workspace. It is refused if the workspace has threads, unless `anyway`."""
    status = await get_status.perform(workspace, HUMAN, NoArguments())
    if status.threads and not anyway:
        raise Refused(
            f"There are threads in workspace '{workspace.name}' already. Choose an empty place (--home DIRECTORY or "
            "--workspace NAME), or say --anyway."
        )
    moment = now()
    people, posted = await workspace.change(lambda change: _add_threads(change, story, moment))
    kept = await _add_library(workspace, story, moment)
    turns = 0
    for agent, session_id, role, text, at in _turns(story["sessions"], people, moment):
        request = recording.RecordTurn(
            agent=agent.id, session=session_id, role=role, content=text, ts=iso(at), id=f"turn-{at:%H%M}"
        )
        await recording.record_turn.perform(workspace, HUMAN, request)
        turns += 1
    return DemoCounts(len(story["threads"]), posted, turns, kept)


def _add_threads(change: Change, story: Story, moment: datetime) -> tuple[dict[str, Agent], int]:
    people: dict[str, Agent] = {}
    for one in story["agents"]:
        with as_if_at(before(moment, "21d")):
            known = agents.named(change, one["name"])
            people[one["name"]] = known or agents.register(change, agents.NewAgent(**one, display_name=one["name"]))[0]
    count = 0
    for told in story["threads"]:
        with as_if_at(before(moment, told["begun"])):
            thread = threads.open_thread(change, threads.CreateThread(topic=told["topic"]))[0].thread
        posted: list[Message] = []
        for one in told["messages"]:
            with as_if_at(before(moment, one["ago"])):
                posted.append(_post(change, thread.id, one, people, posted))
        metadata = {"pinned": True} if told.get("pinned") else None
        with as_if_at(posted[-1].created_at):
            update = threads.UpdateThread(thread_id=thread.id, status=told.get("status"), metadata=metadata)
            threads.change_thread(change, HUMAN, update)
        count += len(posted)
    for agent in people.values():
        agents.touch(change, agent, "msg_wait")
    return people, count


def _post(change: Change, thread_id: str, told: Story, people: Mapping[str, Agent], posted: list[Message]) -> Message:
    agent = people.get(told["by"])
    request = PostMessage(
        thread_id=thread_id,
        author=agent.id if agent else told["by"],
        role="assistant" if agent else "user",
        content=(told.get("edited_from") or told["text"]).strip(),
        priority=told.get("priority", "normal"),
        mentions=[people[name].id for name in told.get("mentions", ())] or None,
        reply_to_msg_id=posted[told["reply"] - 1].id if "reply" in told else None,
        metadata={"visibility": "human_only"} if told.get("for_humans") else None,
    )
    message: Message = post_message.work(change, HUMAN, request)
    if "edited_from" in told:
        editor = Caller(kind="human", name=told["by"])
        edit_message.work(change, editor, EditMessage(message_id=message.id, content=told["text"].strip()))
    for label, name in told.get("reactions", ()):
        who = people[name].id if name in people else f"human:{name}"
        reactions.react.work(change, HUMAN, reactions.React(message_id=message.id, reaction=label, agent_id=who))
    return message


async def _add_library(workspace: Workspace, story: Story, moment: datetime) -> int:
    """Add the documents of the library, whose fields in the story are those of the requests, and conversations."""
    ids: dict[str, int | str] = {}
    for kind, operation in LIBRARY.items():
        for told in story[kind]:
            begun = before(moment, told.get("ago", ""))
            fields = {name: value for name, value in told.items() if name in operation.request.model_fields}
            fields |= {"created_at": iso(begun)}
            fields |= {"character_id": ids[told["character"]]} if "character" in told else {}
            document = await operation.perform(workspace, HUMAN, operation.request(**fields))
            ids[told.get("name") or told["title"]] = document.id
            for number, (sender, text) in enumerate(told.get("messages", ())):
                at = iso(begun + timedelta(minutes=number))
                said = chats.AddChatMessage(conversation_id=document.id, sender=sender, content=text, created_at=at)
                await chats.add_chat_message.perform(workspace, HUMAN, said)
    for told in story["conversations"]:
        begun = before(moment, told["ago"])
        lines = tuple(
            Said(f"m{number}", role, text, begun + timedelta(minutes=number))
            for number, (role, text) in enumerate(told["messages"])
        )
        id = "demo-" + re.sub(r"\W+", "-", told["title"].lower()).strip("-")
        talk = Conversation(id, told["origin"], told["title"], begun, lines[-1].ts, lines)
        await workspace.change(partial(archive.put, conversation=talk))
    return sum(len(story[kind]) for kind in (*LIBRARY, "conversations"))


def _turns(
    told: Story, people: Mapping[str, Agent], moment: datetime
) -> Iterator[tuple[Agent, str, Role, str, datetime]]:
    """The turns of one session a working day, more in the middle of the week. They are the same for the same day."""
    pairs = told["turns"]
    for ago in range(SESSION_DAYS, 0, -1):
        day = moment - timedelta(days=ago)
        agent = people[told["agents"][ago % len(told["agents"])]]
        for number in range((2, 4, 6, 5, 3, 0, 1)[day.weekday()]):
            question, answer = pairs[(ago * 5 + number) % len(pairs)]
            at = day.replace(hour=9, minute=10) + timedelta(minutes=11 * number)
            yield agent, f"{day:%Y-%m-%d}", "user", question, at
            yield agent, f"{day:%Y-%m-%d}", "assistant", answer, at + timedelta(minutes=2)
