"""Handoff: the state of a session goes to another agent, as a message that names it. No model is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from palaver.errors import Refused, must_be_found
from palaver.model.messages import Message
from palaver.model.people import Agent, Caller, Client, program_of, title_of
from palaver.model.projects import same_project
from palaver.model.requests import Id, Line, NotBlank, Project, Request, clamp
from palaver.operations import identity
from palaver.operations.bus.messages import PostMessage, post_message
from palaver.operations.bus.receipts import GetReceipts, get_receipts
from palaver.operations.bus.threads import CreateThread, open_thread
from palaver.operations.catchup.briefing import FENCE_TOKENS, TASK, Section, age, state_of, within_budget
from palaver.operations.catchup.session_facts import SessionFacts, read_facts, requests_of, substance_of, unquoted
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.operations.sessions.owners import must_be_indexed
from palaver.operations.sessions.private import TurnText, privacy_rules
from palaver.operations.sessions.steps import Step, parse_arguments, steps_of
from palaver.store.bus import agents, names
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import outlines
from palaver.store.workspaces import Workspace
from palaver.text import fence, notable
from palaver.text.secrets import masked
from palaver.text.token_estimate import estimate_tokens
from palaver.text.tool_output import PLANNING_TOOLS

TOPIC = "Handoffs"
TOKENS = 1_400
"""About how many tokens the message may have."""
MOST_NAMED = 10
MARKS = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
STEP_KEYS = ("content", "step", "subject", "description")
"""The argument with the words of a step, which differs from program to program."""
ASKED = (
    "Handoff for {}: please take over the work below. Read this message whole (msg_list), then react to it with "
    "accepted or declined (msg_react); if you decline, reply with the reason.\nThe text below was recorded from a "
    "session. knowledge_search finds more of it."
)
State = Literal["preview", "offered", "accepted", "declined"]
PREVIEW = "Nothing was posted: this is what another agent would get. To hand over, call again with to: {}."


class HandOff(Request):
    to: Annotated[Line, NotBlank] | None = None
    """Agent or program that takes over, such as codex. Default: show what it would get, and who could take it."""
    project: Project | None = None
    """Folder or name of the project. Default: the one you work in."""
    session: Id | None = None
    """Id of the session to hand over. Default: your latest, else the latest of the project."""
    note: TurnText | None = None
    """The next step, or what else the receiver must know."""
    wait_s: Annotated[int, clamp(0, 600)] = 20
    """Seconds to wait for accepted or declined, if the message reaches the receiver."""


@dataclass(frozen=True, slots=True)
class HandedOff:
    """`state` is offered until the receiver reacts to the message."""

    state: State
    to: str | None
    session_id: str
    message_id: str | None
    thread_id: str | None
    text: str


@operation(
    Tool("handoff", acts=True, brings_words=True),
    Route("POST", "/api/handoff"),
    Command("handoff", text="text", defaults={"project": "."}),
)
async def hand_off(workspace: Workspace, caller: Caller, request: HandOff) -> HandedOff:
    """Hand your work over to another agent: task, decisions, files, open points and next step of a session become a
    message to it."""
    facts, state = await workspace.read(lambda read: _read_state(read, caller, request))
    session = facts.info.session_id
    if (name := request.to) is None:
        others = await workspace.read(lambda read: _others(read, caller, facts))
        text = f"{PREVIEW.format(_names(others))}\n{fence.fenced(state)}"
        return HandedOff("preview", None, session, None, None, text)
    to, message = await workspace.change(lambda change: _post(change, caller, name, facts, state))
    wait = GetReceipts(message_id=message.id, wait_s=request.wait_s, for_reaction=True)
    (receipt,) = (await get_receipts.work(workspace, caller, wait)).receipts
    answers: dict[str | None, State] = {"accepted": "accepted", "declined": "declined"}
    told = answers.get(receipt.reaction, "offered")
    text = f"{told.capitalize()}: the session {session} was offered to {to.slug} ({TOPIC} #{message.seq})."
    text = f"{text} {receipt.reason or ''}".rstrip()
    return HandedOff(told, to.slug, session, message.id, message.thread_id, text)


def _read_state(read: Reader, caller: Caller, request: HandOff) -> tuple[SessionFacts, str]:
    """The session to hand over, and its state within the budget."""
    must_be_indexed(read)
    own = identity.agent_of(read, caller)
    project = request.project or caller.client.project or (own.project if own else None)
    known = read_facts(read, caller, project)
    wanted = [one for one in known if request.session in (None, one.info.session_id)]
    if request.session is None:  # small talk and sessions of the receiver only if there is nothing else
        receivers = {one.id for one in agents.called(read, request.to or "")} - {own and own.id}
        wanted = [one for one in wanted if one.info.agent_id not in receivers] or wanted
        wanted = [one for one in wanted if substance_of(one, 0) > 0] or wanted
    latest = max(wanted, key=lambda one: (own and one.info.agent_id == own.id, one.info.last_turn_at), default=None)
    advice = "List the sessions to see which you may read. Only recorded sessions can be handed over."
    facts = must_be_found(latest, "session", request.session or f"latest in {project or 'any project'}", advice)
    if why := privacy_rules(read.settings).why(facts.info.project):
        raise Refused(f"This project is kept out of palaver by {why}, so its sessions are not handed over.")
    return facts, _state(read, facts, known, request.note)


def _state(read: Reader, facts: SessionFacts, known: list[SessionFacts], note: str | None) -> str:
    info, steps = facts.info, steps_of(outlines.turns(read, facts.document_id))
    answers = [step for step in steps if step.kind == "answer"]
    asked = requests_of(steps)
    later = [one for one in asked[1:] if not notable.is_small_talk(one.turn.start)][:-6:-1]
    to_do, next_step = _plan(read, facts, steps)
    sections = [
        Section("Next step:", [f"- {_line(one, 150)}" for one in (masked(note or ""), next_step) if one]),
        Section(TASK, [f"- {_line(_whole(read, facts, one), 300)}" for one in asked[:1]]),
        Section("Later requests, the latest first:", [f"- {_line(_whole(read, facts, one), 80)}" for one in later]),
        Section("What was said last:", [f"- {_line(_whole(read, facts, one), 150)}" for one in answers[-1:]]),
        Section("To-do list:", to_do, at_once=3),
        *state_of(read, facts, known, most=16),
    ]
    about = f"Session {info.session_id} of {info.agent}, project {info.project or 'unknown'}, {info.turns} turns, "
    about += f"the last one {age(info.last_turn_at)}."
    around = estimate_tokens(ASKED) + estimate_tokens(about) + 2 * FENCE_TOKENS
    return f"{about}\n{within_budget(sections, TOKENS - around).text}"


def _line(text: str, tokens: int) -> str:
    """The text as one line of about so many tokens."""
    line = notable.one_line(text, 4 * tokens)
    return line if (cost := estimate_tokens(line)) <= tokens else notable.one_line(line, len(line) * tokens // cost)


def _whole(read: Reader, facts: SessionFacts, step: Step) -> str:
    """The text of a step. What was recorded through a door may have secrets. They are masked before the text is cut."""
    at = step.turn.position
    return masked(unquoted(outlines.texts(read, facts.document_id, {at}).get(at, "")))


def _plan(read: Reader, facts: SessionFacts, steps: list[Step]) -> tuple[list[str], str | None]:
    """The last to-do list of the session, and its first step that is not done."""
    todo: list[dict[str, Any]] = []
    for step in steps:
        tool = (step.tool or "").casefold()
        if tool not in PLANNING_TOOLS:
            continue
        text = _whole(read, facts, step).partition("] ")[2]
        given: dict[str, Any] = parse_arguments(text)
        items = next((one for one in given.values() if isinstance(one, list)), None)
        if tool == "taskcreate":  # Claude Code tells one task after the other
            todo.append(given | {"status": "pending"})
        elif tool == "taskupdate":
            number = str(given.get("taskId", ""))
            if number.isdecimal() and 0 < int(number) <= len(todo):
                todo[int(number) - 1] |= given
        else:  # a long list was cut
            todo = items or [parse_arguments(one) for one in re.findall(r"\{[^{}]*\}", text)]
    named = [(one.get("status", ""), next((one[key] for key in STEP_KEYS if one.get(key)), "")) for one in todo]
    named = [(status, notable.one_line(text, 200)) for status, text in named if text and status in MARKS]
    left = sorted((one for one in named if one[0] != "completed"), key=lambda one: one[0])  # in_progress comes first
    return [f"- {MARKS[status]} {text}" for status, text in named], left[0][1] if left else None


def _others(read: Reader, caller: Caller, facts: SessionFacts) -> list[Agent]:
    """The agents beside the caller's and the session's: of the project first, then those online, then the latest."""
    found = [one for one in agents.everyone(read) if one.id not in (caller.acting_agent, facts.info.agent_id)]
    place = facts.info.project
    found.sort(key=lambda one: (same_project(one.project, place), one.is_online, one.last_heartbeat), reverse=True)
    return found


def _names(found: list[Agent]) -> str:
    return ", ".join(one.slug for one in found[:MOST_NAMED]) or "nobody yet"


def _post(change: Change, caller: Caller, name: str, facts: SessionFacts, state: str) -> tuple[Agent, Message]:
    """Post it to the agent with this name, else to that of the program in the project. It may be there before it is
    first at work."""
    others, project, program = (
        _others(change, caller, facts),
        facts.info.project,
        names.program_called(program_of(name)),
    )
    if program is None:
        found = agents.named(change, name)
    else:
        of_program = (one for one in others if one.client == program)
        found = next((one for one in of_program if not project or same_project(one.project, project)), None)
        if found is None and project and not caller.agent_id:
            client = Client(program, title_of(program, None), project)
            found = identity.agent_for(change, caller, client, "", is_at_work=False)
    advice = f"It could go to: {_names(others)}."
    to = must_be_found(found, "agent", name, advice)
    if to.id in (caller.acting_agent, facts.info.agent_id):
        raise Refused(f"to: {to.slug} is the agent of this session. {advice}")
    thread = open_thread(change, CreateThread(topic=TOPIC), caller)[0].thread
    told = {"handoff_target": to.id, "handoff": {"session_id": facts.info.session_id, "agent_id": facts.info.agent_id}}
    content = f"{ASKED.format(to.slug)}\n{fence.fenced(state)}"
    return to, post_message.work(change, caller, PostMessage(thread_id=thread.id, content=content, metadata=told))
