"""Collect what is new for a reader: messages meant for it, questions, decisions, unread threads, recent sessions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

from palaver.model import visibility
from palaver.model.answers import answer_of
from palaver.model.messages import Message
from palaver.model.people import Caller, title_of
from palaver.operations.catchup.session_facts import SessionFacts, left_open, read_facts, substance_of
from palaver.operations.edits.claims import in_words
from palaver.operations.edits.editing import lines_for
from palaver.store.bus import claims, read_marks
from palaver.store.bus.read_marks import Mention, ThreadReader, Unread, UnreadThread
from palaver.store.engines.database import Reader
from palaver.text import notable

MOST_SESSIONS = 4
TEXT_LENGTH = 400
"""Maximum characters of a message in the answer."""


@dataclass(frozen=True, slots=True)
class NewsItem:
    """A message. `place` is its thread and its number: `plans #14`."""

    place: str
    message_id: str
    thread_id: str
    seq: int
    author: str
    created_at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class ThreadNews:
    """A thread with unread messages. `messages` are the newest that are in no other list."""

    thread_id: str
    topic: str
    unread: int
    after_seq: int
    """The last message that was read. Read on with this as after_seq."""
    current_seq: int
    messages: list[NewsItem]


@dataclass(frozen=True, slots=True)
class SessionNews:
    """A session in the project: what was done and decided in it, and what is still open."""

    session_id: str
    agent: str | None
    program: str
    """The program it ran in, as people call it: Claude Code. The name of the agent, if the program is unknown."""
    title: str | None
    last_turn_at: datetime
    files: list[str]
    """The names of the files that were edited, the latest first."""
    done: list[str]
    decided: list[str]
    left_open: list[str]


@dataclass(frozen=True, slots=True)
class ProjectThread:
    thread_id: str
    topic: str
    current_seq: int
    updated_at: datetime


@dataclass(slots=True)
class News:
    mentions: list[NewsItem] = field(default_factory=list)
    questions: list[NewsItem] = field(default_factory=list)
    decisions: list[NewsItem] = field(default_factory=list)
    threads: list[ThreadNews] = field(default_factory=list)
    sessions: list[SessionNews] = field(default_factory=list)
    project_threads: list[ProjectThread] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)
    """Which files others edit in the project now."""
    claims: list[str] = field(default_factory=list)
    """Which files others hold in the project, until when and why."""


@dataclass(slots=True)
class CollectedNews:
    """The news, and what must be stored when they are shown."""

    news: News
    mentions: list[Mention]
    unread: Unread


def collect(
    read: Reader,
    caller: Caller,
    reader: ThreadReader,
    *,
    since: datetime | None = None,
    project: str | None = None,
    without_session: str | None = None,
) -> CollectedNews:
    """Collect the news of a reader. A message is in one list only. `without_session` is the session that asks."""
    unread = read_marks.unread_of(read, reader, since)
    mentions = [one for one in unread.mentions if not visibility.hides(caller, one.message.metadata)]
    news = News(mentions=[item_of(mention.topic, mention.message) for mention in mentions])
    shown = {mention.message.id for mention in mentions} | unread.handled
    for thread in unread.threads:
        if thread.unread > 0:
            _sort_messages(news, thread, visibility.mask_messages(caller, thread.messages), reader, shown)
    if project:
        news.sessions = recent_sessions(read, caller, project, without_session)
        news.edits = lines_for(read, caller, project)
        held = claims.seen_by(read, caller, project)
        news.claims = [in_words(one) for one in held if not visibility.is_own_claim(caller, one)]
        known = {thread.thread_id for thread in news.threads}
        project_threads = read_marks.threads_of_project(read, project)
        news.project_threads = [answer_of(ProjectThread, one) for one in project_threads if one.id not in known]
    return CollectedNews(news, mentions, unread)


def _sort_messages(
    news: News, unread: UnreadThread, found: list[Message], reader: ThreadReader, shown: set[str]
) -> None:
    """Put the unread messages of a thread into the lists: questions, decisions, and the rest."""
    thread = unread.stored.thread
    rest: list[NewsItem] = []
    for number, message in enumerate(found):
        if reader.wrote(message) or message.id in shown:
            continue
        is_answered = any(later.author != message.author for later in found[number + 1 :])
        if not is_answered and notable.is_question(message.content):
            news.questions.append(item_of(thread.topic, message))
        elif decided := notable.decisions(message.content):
            news.decisions.append(item_of(thread.topic, message, decided[0]))
        else:
            rest.append(item_of(thread.topic, message))
    news.threads.append(answer_of(ThreadNews, thread, unread=unread.unread, after_seq=unread.read_seq, messages=rest))


def item_of(topic: str, message: Message, text: str | None = None, length: int = TEXT_LENGTH) -> NewsItem:
    short = notable.one_line(text or message.content, length)
    place = f"{notable.one_line(topic, 80)} #{message.seq}"
    return answer_of(NewsItem, message, place=place, author=message.author_name, text=short)


def recent_sessions(read: Reader, caller: Caller, project: str, without_session: str | None) -> list[SessionNews]:
    """The sessions of a project in which most was done, the latest counting more. Small talk is left out."""
    known = read_facts(read, caller, project)
    still_open = left_open(read, known)
    weighed = []
    for facts in known:
        points = still_open.get((facts.info.agent_id, facts.info.session_id), [])
        weight = substance_of(facts, len(points))
        if weight > 0 and facts.info.session_id != without_session:
            weighed.append((weight, facts, points))
    weighed.sort(key=lambda one: one[0], reverse=True)
    return [_session_news(facts, points) for _, facts, points in weighed[:MOST_SESSIONS]]


def _session_news(facts: SessionFacts, points: list[str]) -> SessionNews:
    info = facts.info
    files = dict.fromkeys(re.split(r"[/\\]", path)[-1] for path in facts.files)
    return answer_of(
        SessionNews,
        info,
        program=title_of(info.program or info.agent or "agent", None),
        title=notable.one_line(facts.requests[0], 120) if facts.requests else info.title,
        files=list(files)[:4],
        done=[notable.one_line(one.text, 160) for one in facts.finished][:1],
        decided=[notable.one_line(one.text, 160) for one in facts.decided][:3],
        left_open=[notable.one_line(one, 160) for one in points][:3],
    )
