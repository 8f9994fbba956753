"""What the hooks of coding agents get: a briefing at the start, messages to the agent at each prompt and stop.

The hook program (`palaver/doors/hook.py`) sends the event and shows the answer in the format of its client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from palaver.model import visibility
from palaver.model.events import agent_online, agent_session
from palaver.model.people import Agent, Caller, Client, Session, program_of, title_of
from palaver.model.project_file import read_project_file
from palaver.model.requests import Id, Ids, Line, NotBlank, Project, Request, Text, clamp
from palaver.operations.bus.messages import mark_active
from palaver.operations.catchup import briefing
from palaver.operations.catchup.briefing import compaction_briefing
from palaver.operations.catchup.news import News, collect, item_of
from palaver.operations.catchup.recall import evidence
from palaver.operations.catchup.ringing import ring_of
from palaver.operations.catchup.session_facts import unquoted
from palaver.operations.identity import agent_for
from palaver.operations.operation import Route, operation
from palaver.operations.sessions.private import privacy_rules
from palaver.store.bus import agents, claims, deliveries, read_marks
from palaver.store.bus.agents import HookConnection
from palaver.store.bus.deliveries import HookContext, HookSession
from palaver.store.bus.read_marks import Mention, reader_of
from palaver.store.engines.database import Change
from palaver.store.workspaces import Workspace
from palaver.text import fence, notable
from palaver.text.hook_text import GO_ON, NEW_FOR_YOU
from palaver.text.private_parts import without_private_parts
from palaver.text.secrets import masked
from palaver.text.token_estimate import estimate_tokens

Event = Literal["session-start", "prompt", "stop", "pre-compact", "session-end", "confirm"]

BRIEFING_TOKENS = 600
MESSAGES_TOKENS = 700
RECALL_TOKENS = 380
MOST_AT_ONCE = 20
"""At most this many messages are shown at a prompt or a stop. The others come next time."""
SHAPES = ((20, 600), (20, 300), (20, 150), (20, 80), (15, 80), (10, 80), (5, 80), (1, 80))
"""How many messages are shown, and the maximum characters of each. The first shape that fits is taken."""
MOST_TASK = 120
MOST_TOPIC = 40
"""A thread with a longer topic is named by its id."""

NOT_RECORDED = "The last session could not be recorded: {} Tell your user: palaver doctor says more."
CUT_TEXTS = "Read cut texts with msg_list."
MORE = "{:,} more messages for you: read them with msg_list or catch_up."
READ_MORE = "Read a thread with msg_list, answer with msg_post, search with knowledge_search."


HOOK_CONTEXT, HOOK_CONTEXT_END = "<hook_context>", "</hook_context>"


class HookReport(Request):
    client: Annotated[Line, Field(max_length=60), NotBlank]
    """Short name of the client program, e.g. claude-code."""
    session: Id
    """Id of the client's session."""
    project: Project | None = None
    """Folder that the client works in, or its project."""
    folder: Project | None = None
    """Folder that the client works in, if `project` is not a folder."""
    pid: Annotated[int, clamp(0, 2**31 - 1)] | None = None
    """Process id of the client, if it runs on the same machine."""
    confirmed: Ids | None = None
    """The deliveries of earlier answers whose text was written for the model. Clients that confirm always send it."""


class HookEvent(HookReport):
    event: Event
    """The event of the client, or confirm: the text of an earlier answer was written."""
    prompt: Text | None = None
    """What the user typed."""
    source: Annotated[Line, Field(max_length=60)] | None = None
    """Why a session starts (startup, resume, clear or compact) or is compacted (auto or manual)."""
    not_recorded: Annotated[Line, Field(max_length=500)] | None = None
    """Why the last session of the client could not be recorded."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """`text` is for the model. It is empty if there is nothing to say. Otherwise confirm `delivery` when it is written:
    what is not confirmed is offered again."""

    agent: str | None
    text: str
    delivery: str | None = None


@operation(Route("POST", "/api/hooks/{event}"))
async def report_hook(workspace: Workspace, caller: Caller, request: HookEvent) -> HookAnswer:
    """Report an event of a coding agent. Returns the text that the agent should read."""
    await workspace.store_read_marks()
    project, caller = request.project, caller_of(caller, request)
    if request.event in ("session-end", "confirm"):

        def end(change: Change) -> None:
            deliveries.confirm(change, request.session, request.confirmed or ())
            if request.event == "confirm":
                return
            claims.end_session(change, request.session)
            if known := agents.end_hook_connection(change, request.session):
                change.tell(agent_session(agents.must_exist(change, known.agent_id)))

        await workspace.change(end)
        return HookAnswer(None, "")

    task = await asyncio.to_thread(_task_of, workspace, request)
    is_start = request.event == "session-start" and request.source != "compact"
    keeps_context = caller.client.program != "gemini-cli"  # it forgets what its hooks said when a session is resumed

    def arrive(change: Change) -> tuple[Agent, HookContext, str, str | None]:
        deliveries.confirm(change, request.session, request.confirmed or ())
        agent, known = agent_of_session(change, caller, request, request.event)
        session = HookSession(request.session, reader_of(caller, agent))
        # With "auto", Gemini CLI reports each turn, and the others report a start after the compaction.
        is_compacted = request.source == "compact" or (request.event == "pre-compact" and request.source != "auto")
        if request.event in ("prompt", "stop"):
            deliveries.go_on(change, session)
        elif is_compacted:
            deliveries.end_context(change, session)
        elif request.event == "session-start" and not (request.source == "resume" and keeps_context):
            deliveries.forget(change, session)
        begins_turn = request.event == "prompt" and known.state != "woken"
        turn = known.turn + (begins_turn or request.event == "session-start")
        context = deliveries.context_of(change, session, turn, confirms=request.confirmed is not None)
        context = replace(context, was_compacted=is_compacted or context.was_compacted)
        text, delivery = "", None
        if request.event == "stop" or (request.event == "prompt" and context.is_briefed):
            text, delivery = _new_messages(change, caller, context, request.event, known.announced)
        if request.event == "prompt" or is_start:
            agents.set_hook_connection(
                change, known, state="working", turn=known.turn + begins_turn, task=task or known.task
            )
        elif request.event == "stop":
            _pauses(change, agent, request.session, "woken" if text else "idle")
        return agent, context, text, delivery

    agent, context, text, delivery = await workspace.change(arrive)
    caller = replace(caller, session=Session(agent_id=agent.id))
    if request.event == "session-start" or (request.event == "prompt" and not context.is_briefed):
        # The hook may have had no answer when the session began. Then the first prompt gets the briefing.
        notes = [NOT_RECORDED.format(notable.one_line(request.not_recorded, 200))] if request.not_recorded else []
        text, delivery = await _briefing(workspace, caller, agent, context, project, notes)
    if request.event == "prompt" and request.prompt and workspace.settings.recall:
        # Whether the project of the client allows evidence in prompts is asked where its folder is.
        folder = request.folder if workspace.settings.is_loopback else None
        is_wanted = not folder or read_project_file(folder).has_recall
        prompt = typed_part(request.prompt)
        found = await evidence(workspace, caller, prompt, request.session, RECALL_TOKENS) if is_wanted else ""
        text = "\n\n".join(part for part in (text, found) if part)
    if text and delivery is None:
        delivery = await workspace.change(lambda change: deliveries.offer(change, context, "prompt"))
    if is_start:  # only now, so that a wake does not say what the briefing says
        await workspace.change(lambda change: _pauses(change, agent, request.session))
    return HookAnswer(agent.slug, text, delivery)


def _task_of(workspace: Workspace, request: HookEvent) -> str:
    """What the person asks for, in one line; '' if it says nothing new, or is private."""
    typed = unquoted(without_private_parts(typed_part(request.prompt or "").strip()))
    if not typed or notable.is_small_talk(typed):
        return ""
    rules = privacy_rules(workspace.settings)
    is_private = any(rules.why(place) for place in (request.folder, request.project))
    return "" if is_private else notable.one_line(masked(typed), MOST_TASK)


def _pauses(change: Change, agent: Agent, session_id: str, state: Literal["idle", "woken"] = "idle") -> None:
    """The session is idle, or goes on because of our text. A call that waits looks whether there is a message now."""
    if known := agents.hook_connection(change, session_id):
        agents.set_hook_connection(change, known, state=state)
        if known.waiter:
            change.tell(agent_session(agent))


def typed_part(prompt: str) -> str:
    """The prompt without the text of earlier hooks, which Gemini CLI puts before it."""
    begin, found, rest = prompt.partition(HOOK_CONTEXT)
    return begin + rest.rpartition(HOOK_CONTEXT_END)[2] if found else prompt


def caller_of(caller: Caller, request: HookReport) -> Caller:
    """The client whose hook reports."""
    client = Client(program_of(request.client), title_of(request.client, None), request.project or "")
    return replace(caller, kind="agent", client=client, session=Session())


def agent_of_session(change: Change, caller: Caller, request: HookReport, event: str) -> tuple[Agent, HookConnection]:
    """The agent of the client's session, and what the session does."""
    agents.lock_session(change, request.session)
    known = agents.hook_connection(change, request.session)
    starts = event == "spawn"  # it is no session of the agent: it starts one
    agent = agent_for(change, caller, caller.client, request.session, is_at_work=not starts)
    key = agents.hook_key(request.session, request.pid)
    if known is not None and known.agent_id == agent.id:
        if not starts:
            mark_active(change, agent, event)
        if request.pid and known.key != key:
            known = agents.move_hook_connection(change, known, key)
        return agent, known
    client, folder = caller.client, request.folder or ""
    agents.bind_connection(change, key, agent, "spawn" if starts else client.program, client.project, folder)
    if not starts and agents.touch(change, agent, event):
        change.tell(agent_online(agents.must_exist(change, agent.id)))
    return agent, HookConnection(key, agent.id, "idle", 0, "", 0)


async def _briefing(
    workspace: Workspace, caller: Caller, agent: Agent, context: HookContext, project: str | None, notes: list[str]
) -> tuple[str, str]:
    """What an agent should know when it starts: who it is, what is new, what happened in this project. `notes` come
    before the news. Returns the text and its delivery. Messages in the context, or without room, are not in it."""
    id, news, mentions, about = context.session.id, News(), list[Mention](), ""
    if context.was_compacted:
        about = await compaction_briefing(workspace, caller, agent, id, project)
    if not about:
        reader = context.session.reader
        found = await workspace.read(lambda read: collect(read, caller, reader, project=project, without_session=id))
        mentions = [one for one in found.mentions if one.passage_id not in context.passage_ids]
        news = replace(found.news, mentions=[item_of(one.topic, one.message) for one in mentions])

    def offer(change: Change) -> tuple[str, str]:
        has_token = caller.is_authenticated or context.is_briefed
        who = briefing.who_you_are(agent, None if has_token else agents.new_secret(change, agent, id))
        if about:
            return "\n".join([who, *notes, about]), deliveries.offer(change, context, "briefing")
        made = briefing.brief(news, BRIEFING_TOKENS, before=[who, READ_MORE, *notes])
        shown = mentions[len(mentions) - made.shown.get(briefing.FOR_YOU, 0) :]  # the newest ones are shown
        return made.text, deliveries.offer(change, context, "briefing", shown)

    return await workspace.change(offer)


def unseen(change: Change, caller: Caller, session: HookSession, after: int, most: int = MOST_AT_ONCE) -> list[Mention]:
    """The oldest messages to the agent after a passage that it was not shown before."""
    found = read_marks.unseen_mentions(change, session.reader, session.key["session"], most, after)
    hidden = [mention for mention in found if visibility.hides(caller, mention.message.metadata)]
    read_marks.mark_seen(change, session.reader, hidden)
    return [mention for mention in found if mention not in hidden]


def _new_messages(
    change: Change, caller: Caller, context: HookContext, way: Literal["prompt", "stop"], announced: int
) -> tuple[str, str | None]:
    """The messages to the agent that it was not shown before, and their delivery. Those without room come next time.
    What a summary has announced, or may begin no turn, does not keep a session from its stop."""
    mentions = unseen(change, caller, context.session, announced if way == "stop" else 0)
    if way == "stop":
        mentions = [one for one in mentions if ring_of(change, context.session.reader, one).seconds == 0]
    if not mentions:
        return "", None
    heading = GO_ON if way == "stop" else NEW_FOR_YOU
    text, shown = messages_text(mentions, len(mentions), heading, SHAPES, MESSAGES_TOKENS)
    return text, deliveries.offer(change, context, way, mentions[:shown])


def messages_text(
    found: list[Mention], count: int, heading: str, shapes: Iterable[tuple[int, int]], max_tokens: int
) -> tuple[str, int]:
    """The text for these messages of `count`, the oldest first, and how many are in it."""
    text, shown = "", 0
    for most, length in shapes:
        shown = len(found[:most])
        is_cut = any(len(one.message.content) > length for one in found[:shown])
        more = [MORE.format(count - shown)] if count > shown else []
        said = fence.fenced("\n".join(_line(one, length) for one in found[:shown]))
        text = "\n".join([heading, *([CUT_TEXTS] if is_cut else []), *more, said])
        if estimate_tokens(text) <= max_tokens:
            break
    return text, shown


def _line(mention: Mention, length: int) -> str:
    """[plans #14] agent NAME, 5 min ago: a message. The name of a webhook says that it is no person."""
    message, topic = mention.message, notable.one_line(mention.topic, MOST_TOPIC)
    thread = topic if topic == mention.topic else message.thread_id
    who = "agent " if message.author_id else "" if "webhook" in (message.metadata or {}) else "person "
    who += f"{notable.one_line(message.author_name, 40)}, {briefing.age(message.created_at)}"
    return f"- [{thread} #{message.seq}] {who}: {notable.one_line(message.content, length)}"
