"""Telling a story: a workspace is filled with what a small team said and kept in three weeks.

Everything happens through the same operations everybody uses, only at another time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from palaver.errors import Refused
from palaver.model.library import Conversation, Said
from palaver.model.messages import Message, Role
from palaver.model.people import Agent, Caller
from palaver.model.requests import NoArguments
from palaver.model.times import as_if_at, iso, now
from palaver.operations import library
from palaver.operations.bus import reactions, threads
from palaver.operations.bus.connect import get_status
from palaver.operations.bus.messages import (
    EditMessage,
    OneMessage,
    PostMessage,
    edit_message,
    get_message,
    post_message,
)
from palaver.operations.sessions import sessions
from palaver.store.bus import agents
from palaver.store.engines.database import Change
from palaver.store.library import archive
from palaver.store.workspaces import Workspace

Story = Mapping[str, Any]
HUMAN = Caller(kind="human", name="demo")
SESSION_DAYS = 24
_SPAN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?")


def before(moment: datetime, ago: str) -> datetime:
    """`2d3h10m` before that moment; whole days count back to an afternoon, for nobody here works at night."""
    found = _SPAN.fullmatch(ago)
    assert found, f"{ago!r} is no span of time"
    days, hours, minutes = (int(part or 0) for part in found.groups())
    start = moment.replace(hour=15, minute=0) if days else moment
    return start - timedelta(days=days, hours=hours, minutes=minutes)


@dataclass(frozen=True, slots=True)
class Told:
    threads: int
    messages: int
    turns: int
    kept: int


async def tell(here: Workspace, story: Story, *, anyway: bool = False) -> Told:
    """Tell it in a workspace where nothing was said yet."""
    status = await get_status.perform(here, HUMAN, NoArguments())
    if status.threads and not anyway:
        raise Refused(
            f"There are threads in workspace '{here.name}' already. Choose an empty place (--home DIRECTORY or "
            "--workspace NAME), or say --anyway."
        )
    moment = now()
    people, messages = await here.change(lambda change: _talk(change, story, moment))
    kept = await here.change(lambda change: _keep(change, story, moment))
    turns = await _record(here, story["sessions"], people, moment)
    return Told(len(story["threads"]), messages, turns, kept)


# Threads


def _talk(change: Change, story: Story, moment: datetime) -> tuple[dict[str, Agent], int]:
    people = {one["name"]: _registered(change, one, before(moment, "21d")) for one in story["agents"]}
    said = 0
    for told in story["threads"]:
        with as_if_at(before(moment, told["begun"])):
            thread, _ = threads.open_thread(change, threads.CreateThread(topic=told["topic"]))
        posted: list[Message] = []
        for one in told["messages"]:
            with as_if_at(before(moment, one["ago"])):
                posted.append(_post(change, thread.thread.id, one, people, posted))
        metadata = {"pinned": True} if told.get("pinned") else None
        with as_if_at(posted[-1].created_at):
            wanted = threads.UpdateThread(thread_id=thread.thread.id, status=told.get("status"), metadata=metadata)
            threads.change_thread(change, wanted)
        said += len(posted)
    for agent in people.values():
        agents.touch(change, agent, "msg_wait")
    return people, said


def _registered(change: Change, told: Story, at: datetime) -> Agent:
    known = agents.named(change, told["name"])
    if known:
        return known
    with as_if_at(at):
        return agents.register(change, **{**told, "display_name": told["name"]})[0]


def _post(change: Change, thread_id: str, told: Story, people: Mapping[str, Agent], posted: list[Message]) -> Message:
    agent = people.get(told["by"])
    ask = PostMessage(
        thread_id=thread_id,
        author=agent.id if agent else told["by"],
        role="assistant" if agent else "user",
        content=(told.get("edited_from") or told["text"]).strip(),
        priority=told.get("priority", "normal"),
        mentions=[people[name].id for name in told.get("mentions", ())] or None,
        reply_to_msg_id=posted[told["reply"] - 1].id if "reply" in told else None,
        metadata={"visibility": "human_only"} if told.get("for_humans") else None,
    )
    message: Message = post_message.work(change, HUMAN, ask)
    if "edited_from" in told:
        editor = Caller(kind="human", name=told["by"])
        edit_message.work(change, editor, EditMessage(message_id=message.id, content=told["text"].strip()))
    for label, name in told.get("reactions", ()):
        who = people[name].id if name in people else f"human:{name}"
        reactions.react.work(change, HUMAN, reactions.React(message_id=message.id, reaction=label, agent_id=who))
    return get_message.work(change, HUMAN, OneMessage(message_id=message.id))  # type: ignore[no-any-return]


# The library and the archive


def _keep(change: Change, story: Story, moment: datetime) -> int:
    kept = 0
    for note in story["notes"]:
        at = iso(before(moment, note["ago"]))
        ask = library.notes.CreateNote(
            title=note["title"], content=note["text"].strip(), keywords=note["keywords"], created_at=at
        )
        library.notes.create_note.work(change, HUMAN, ask)
        kept += 1
    for prompt in story["prompts"]:
        library.prompts.create_prompt.work(change, HUMAN, library.prompts.CreatePrompt(**prompt))
        kept += 1
    met: dict[str, int] = {}
    for character in story["characters"]:
        ask_for = library.characters.CreateCharacter(**character)
        met[character["name"]] = library.characters.create_character.work(change, HUMAN, ask_for).id
        kept += 1
    for chat in story["chats"]:
        _chat(change, chat, met, before(moment, chat["ago"]))
        kept += 1
    for media in story["media"]:
        library.media.create_media.work(change, HUMAN, _media(media, moment))
        kept += 1
    for conversation in story["conversations"]:
        archive.put(change, _conversation(conversation, before(moment, conversation["ago"])))
        kept += 1
    return kept


def _chat(change: Change, told: Story, met: Mapping[str, int], at: datetime) -> None:
    ask = library.chats.CreateChat(title=told["title"], character_id=met[told["character"]], created_at=iso(at))
    chat = library.chats.create_chat.work(change, HUMAN, ask)
    for number, (sender, text) in enumerate(told["messages"]):
        said = library.chats.AddChatMessage(
            conversation_id=chat.id, sender=sender, content=text, created_at=iso(at + timedelta(minutes=number))
        )
        library.chats.add_chat_message.work(change, HUMAN, said)


def _media(told: Story, moment: datetime) -> library.media.CreateMedia:
    segments = [library.media.GivenSegment(start=start, end=end, text=text) for start, end, text in told["segments"]]
    return library.media.CreateMedia(
        title=told["title"],
        media_type=told["media_type"],
        content="",
        keywords=told["keywords"],
        transcript=library.media.GivenTranscript(segments=segments),
        created_at=iso(before(moment, told["ago"])),
    )


def _conversation(told: Story, at: datetime) -> Conversation:
    messages = tuple(
        Said(f"m{number}", role, text, at + timedelta(minutes=number))
        for number, (role, text) in enumerate(told["messages"])
    )
    id = "demo-" + re.sub(r"\W+", "-", told["title"].lower()).strip("-")
    return Conversation(id, told["origin"], told["title"], at, messages[-1].ts, messages)


# Sessions


async def _record(here: Workspace, told: Story, people: Mapping[str, Agent], moment: datetime) -> int:
    said = 0
    for agent, session_id, turns in _sessions(told, people, moment):
        for number, (role, text, at) in enumerate(turns):
            ask = sessions.RecordTurn(
                agent=agent.id, session=session_id, role=role, content=text, ts=iso(at), id=f"turn-{number}"
            )
            await sessions.record_turn.perform(here, HUMAN, ask)
            said += 1
    return said


def _sessions(
    told: Story, people: Mapping[str, Agent], moment: datetime
) -> Iterator[tuple[Agent, str, list[tuple[Role, str, datetime]]]]:
    """A session a working day, more turns in the middle of the week; always the same for the same day."""
    pairs = told["turns"]
    for ago in range(SESSION_DAYS, 0, -1):
        day = moment - timedelta(days=ago)
        busy = (2, 4, 6, 5, 3, 0, 1)[day.weekday()]
        agent = people[told["agents"][ago % len(told["agents"])]]
        turns: list[tuple[Role, str, datetime]] = []
        for number in range(busy):
            question, answer = pairs[(ago * 5 + number) % len(pairs)]
            at = day.replace(hour=9, minute=10) + timedelta(minutes=11 * number)
            turns += [("user", question, at), ("assistant", answer, at + timedelta(minutes=2))]
        if turns:
            yield agent, f"{day:%Y-%m-%d}", turns
