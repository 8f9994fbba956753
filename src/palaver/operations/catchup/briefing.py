"""The news as text within a token budget: the most important first, each line with its place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic

from palaver.model.people import Agent, Caller
from palaver.model.times import now
from palaver.operations.catchup.news import News, NewsItem, SessionNews
from palaver.operations.catchup.session_facts import SessionFacts, left_open, read_facts
from palaver.operations.sessions.steps import call_text
from palaver.store.engines.database import Reader
from palaver.store.sessions import outlines
from palaver.store.workspaces import Workspace
from palaver.text import fence, notable
from palaver.text.control_characters import without_control_characters
from palaver.text.secrets import masked
from palaver.text.token_estimate import estimate_tokens

COMPACTED = "palaver: this session was compacted. This is what was recorded of it; knowledge_search finds the rest."
COMPACTION_TOKENS = 500
"""With the line that says who the agent is, the briefing has at most 600 tokens."""
WAIT_SECONDS = 1.5
"""How long to wait for the first turns of the session. The hook before the compaction records it in a process of its
own, which takes a second or two."""
BETWEEN_LOOKS = 0.1
FENCE_TOKENS = 50
MORE_TOKENS = 12
FOR_YOU, UNREAD, WORK = "For you:", "Unread threads:", "Work in this project:"
TASK = "The task, in the person's words:"
READ_SESSIONS = 'Read more of this work with knowledge_search. An open point is closed when you report it: "done: …".'
NOT_ALL = "Not everything fits: call catch_up with a larger max_tokens. What is left out stays unread."


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its lines. `at_once` lines are added before the next section gets one."""

    heading: str
    lines: list[str]
    at_once: int = 1


def _sections_of(news: News, text_length: int) -> list[Section]:
    """The news as sections, the most important first."""
    threads = []
    for thread in news.threads:
        latest = f": {_said(thread.messages[-1], text_length // 2)}" if thread.messages else ""
        threads.append(f"- {notable.one_line(thread.topic, 80)}: {thread.unread} new after #{thread.after_seq}{latest}")
    return [
        Section(FOR_YOU, _lines(news.mentions, text_length), at_once=3),
        Section("Being edited now:", [f"- {notable.one_line(one, 240)}" for one in news.edits]),
        Section("Files that others hold:", [f"- {one}" for one in news.claims]),
        Section("Questions without an answer:", _lines(news.questions, text_length)),
        Section(WORK, [_session_line(one) for one in news.sessions]),
        Section("Decisions:", _lines(news.decisions, text_length)),
        Section(UNREAD, threads, at_once=2),
        Section(
            "Threads of this project:",
            [f"- {notable.one_line(one.topic, 80)}, {age(one.updated_at)}" for one in news.project_threads],
        ),
    ]


def _lines(items: Iterable[NewsItem], length: int) -> list[str]:
    """One line for each message, the newest first."""
    return [f"- [{one.place}] {_said(one, length)}" for one in reversed(list(items))]


def _said(item: NewsItem, length: int) -> str:
    return f"{notable.one_line(item.author, 40)}, {age(item.created_at)}: {notable.one_line(item.text, length)}"


def _session_line(session: SessionNews) -> str:
    """Codex, yesterday: fix the export. Edited exporter.py. Decided: … Open: …"""
    title = notable.one_line(session.title or session.session_id, 80)
    parts = [f"- {notable.one_line(session.program, 40)}, {age(session.last_turn_at)}:"]
    if not any(one.startswith(title[:60]) for one in session.decided):
        parts.append(f"{title.rstrip('.')}.")
    if session.files:
        parts.append(f"Edited {notable.one_line(', '.join(session.files), 120)}.")
    for label, found in (("Decided", session.decided), ("Open", session.left_open)):
        if found:
            parts.append(f"{label}: {' '.join(found)}")
    if session.done and not session.decided:
        parts.append(f"Done: {session.done[0]}")
    return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Brief:
    """The news as text. `shown` is how many lines of each section are in it; `is_cut`: not all are."""

    text: str
    shown: dict[str, int]
    is_cut: bool


def within_budget(sections: Iterable[Section], max_tokens: int) -> Brief:
    """The sections as text. Lines are added in turns, so that each section gets a share of a small budget."""
    sections = [section for section in sections if section.lines]
    left = max_tokens
    taken = dict.fromkeys((section.heading for section in sections), 0)
    is_full: set[str] = set()
    while len(is_full) < len(sections):
        for section in sections:
            for _ in range(section.at_once):
                done = taken[section.heading]
                if section.heading in is_full or done == len(section.lines):
                    is_full.add(section.heading)
                    break
                cost = estimate_tokens(section.lines[done]) + 1
                cost += 0 if done else estimate_tokens(section.heading) + MORE_TOKENS
                if cost > left:
                    is_full.add(section.heading)
                    break
                left -= cost
                taken[section.heading] += 1
    parts = []
    for section in sections:
        if count := taken[section.heading]:
            more = len(section.lines) - count
            parts += [section.heading, *section.lines[:count], *([f"- … {more} more"] if more else [])]
    is_cut = any(taken[section.heading] < len(section.lines) for section in sections)
    return Brief("\n".join(parts), taken, is_cut)


def who_you_are(agent: Agent, token: str | None) -> str:
    """The line that tells an agent its name, and its credentials if it needs them."""
    if token is None:
        return f"You are the agent {agent.slug} in palaver."
    return (
        f"You are the agent {agent.slug} in palaver: agent_id {agent.id}, token {token}. Pass both to palaver's tools."
    )


def brief(
    news: News, max_tokens: int, *, before: Iterable[str] = (), text_length: int = 240, is_fenced: bool = True
) -> Brief:
    """The news as text within the budget: our own lines first, then what others said, in a fence for agents."""
    own = "\n".join([*before, *([READ_SESSIONS] if news.sessions and is_fenced else [])])
    room = max_tokens - estimate_tokens(own) - (FENCE_TOKENS if is_fenced else 0)
    sections = _sections_of(news, text_length)
    body = within_budget(sections, room)
    if body.is_cut:
        own = f"{own}\n{NOT_ALL}".strip()
        body = within_budget(sections, room - estimate_tokens(NOT_ALL))
    said = fence.fenced(body.text) if body.text and is_fenced else without_control_characters(body.text)
    return replace(body, text="\n".join(part for part in (own, said) if part))


def age(at: datetime) -> str:
    """How long ago, in words: 5 min ago, 3 h ago, yesterday, 2 d ago, or the date."""
    seconds = (now() - at).total_seconds()
    if seconds < 60:
        return "now"
    if seconds < 3_600:
        return f"{int(seconds // 60)} min ago"
    if seconds < 86_400:
        return f"{int(seconds // 3_600)} h ago"
    if seconds < 2 * 86_400:
        return "yesterday"
    if seconds < 30 * 86_400:
        return f"{int(seconds // 86_400)} d ago"
    return at.date().isoformat()


# After a compaction: what this session is about, so that it can go on


async def compaction_briefing(
    workspace: Workspace, caller: Caller, agent: Agent | None, session: str, project: str | None
) -> str:
    """What a compacted session should know of itself: task, decisions, files, the last failing command, open points.
    '' if nothing of it is recorded."""

    def look(read: Reader) -> str:
        if not read.settings.sessions_index:
            return ""
        for place in dict.fromkeys((project, None)):
            known = read_facts(read, caller, place)
            own = [one for one in known if one.info.session_id == session]
            if own:
                # Two programs may use the same id. The caller's own session comes first.
                facts = max(own, key=lambda one: (agent is not None and one.info.agent_id == agent.id, one.info.turns))
                return _about(read, facts, known)
        return ""

    until = monotonic() + WAIT_SECONDS
    while True:
        text = await workspace.read(look)
        if text or monotonic() >= until:
            return text
        await asyncio.sleep(BETWEEN_LOOKS)


def _about(read: Reader, facts: SessionFacts, known: list[SessionFacts]) -> str:
    first, *latest = [notable.one_line(one, 280) for one in facts.requests] or [""]
    sections = [
        Section(TASK, [f"- {first}"] if first else []),
        Section("The latest request:", [f"- {one}" for one in latest]),
        *state_of(read, facts, known),
    ]
    room = COMPACTION_TOKENS - FENCE_TOKENS - estimate_tokens(COMPACTED)
    body = within_budget(sections, room).text
    return f"{COMPACTED}\n{fence.fenced(body)}" if body else ""


def state_of(read: Reader, facts: SessionFacts, known: list[SessionFacts], most: int = 8) -> list[Section]:
    """What failed last in a session, what was decided, what is open, and which files were edited: at most so many."""
    still_open = left_open(read, known).get((facts.info.agent_id, facts.info.session_id), [])
    return [
        Section("The last command that failed:", _failed(read, facts, most // 5)),
        Section("Decided:", [f"- {notable.one_line(masked(one.text), 200)}" for one in facts.decided[:most]]),
        Section("Open:", [f"- {notable.one_line(masked(one), 200)}" for one in still_open[:most]]),
        Section("Files being edited:", [f"- {notable.one_line(one, 120)}" for one in facts.files[:most]], at_once=2),
    ]


def _failed(read: Reader, facts: SessionFacts, lines: int) -> list[str]:
    """The command, and the last lines that it printed."""
    if facts.failing is None:
        return []
    turn, result = facts.failing.turn, facts.failing.result
    found = outlines.texts(read, facts.document_id, {one.position for one in (turn, result) if one})
    texts = {position: masked(text) for position, text in found.items()}
    command = notable.one_line(call_text(texts.get(turn.position, turn.start)).brief, 160)
    printed = (texts.get(result.position, "") if result else "").strip().splitlines()[-lines:]
    return [f"- {command}: {notable.one_line(' / '.join(printed), 160 * lines)}" if printed else f"- {command}"]
