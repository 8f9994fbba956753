"""Collect what is new for a reader: messages meant for it, questions, decisions, unread threads, recent sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from palaver.model import visibility
from palaver.model.messages import Message
from palaver.model.people import Caller
from palaver.model.times import now
from palaver.store.bus import messages, read_marks
from palaver.store.bus.read_marks import Mention, ThreadReader, UnreadThread
from palaver.store.engines.database import Reader
from palaver.store.sessions import sessions, sharing
from palaver.text import notable

MENTIONS_LOOK_BACK = timedelta(days=30)
MOST_MENTIONS = 50
MOST_THREADS = 30
MESSAGES_PER_THREAD = 20
MOST_SESSIONS = 4
TURNS_PER_SESSION = 12
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
    """A recent session in the project: what was decided in it, and what was left open."""

    session_id: str
    agent: str | None
    title: str | None
    last_turn_at: datetime
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


@dataclass(slots=True)
class Found:
    """The news, and what must be stored when they are shown."""

    news: News
    mentions: list[Mention]
    unread: list[UnreadThread]


def collect(
    read: Reader,
    caller: Caller,
    reader: ThreadReader,
    *,
    since: datetime | None = None,
    project: str | None = None,
    without_session: str | None = None,
) -> Found:
    """Collect the news of a reader. A message is in one list only. `without_session` is the session that asks."""
    mentions = read_marks.mentions_of(read, reader, since or now() - MENTIONS_LOOK_BACK, MOST_MENTIONS)
    handled = [mention.message for mention in mentions if mention.is_handled and since is None]
    mentions = [
        mention
        for mention in mentions
        if not (mention.is_handled and since is None) and not visibility.hides(caller, mention.message.metadata)
    ]
    news = News(mentions=[item_of(mention.topic, mention.message) for mention in mentions])
    shown = {mention.message.id for mention in mentions} | {message.id for message in handled}
    unread = read_marks.unread_threads(read, reader, since, MOST_THREADS)
    for thread in unread:
        done = sum(one.thread_id == thread.thread.id and one.seq > thread.read_seq for one in handled)
        if (count := read_marks.count_unread(read, reader, thread) - done) > 0:
            found = messages.newest(read, thread.stored, MESSAGES_PER_THREAD, after_seq=thread.read_seq)
            _sort_messages(news, thread, count, visibility.mask_messages(caller, found), reader, shown)
    if project:
        news.sessions = recent_sessions(read, caller, project, without_session)
        known = {thread.thread_id for thread in news.threads}
        news.project_threads = [
            ProjectThread(one.id, one.topic, one.current_seq, one.updated_at)
            for one in read_marks.threads_of_project(read, project, MOST_THREADS)
            if one.id not in known
        ]
    return Found(news, mentions, unread)


def _sort_messages(
    news: News, thread: UnreadThread, count: int, found: list[Message], reader: ThreadReader, shown: set[str]
) -> None:
    """Put the unread messages of a thread into the lists: questions, decisions, and the rest."""
    topic = thread.thread.topic
    rest: list[NewsItem] = []
    for number, message in enumerate(found):
        if reader.wrote(message) or message.id in shown:
            continue
        is_answered = any(later.author != message.author for later in found[number + 1 :])
        if not is_answered and notable.is_question(message.content):
            news.questions.append(item_of(topic, message))
        elif decided := notable.decisions(message.content):
            news.decisions.append(item_of(topic, message, decided[0]))
        else:
            rest.append(item_of(topic, message))
    last_seq = thread.thread.current_seq
    news.threads.append(ThreadNews(thread.thread.id, topic, count, thread.read_seq, last_seq, rest))


def item_of(topic: str, message: Message, text: str | None = None, length: int = TEXT_LENGTH) -> NewsItem:
    short = notable.one_line(text or message.content, length)
    place = f"{notable.one_line(topic, 80)} #{message.seq}"
    return NewsItem(place, message.id, message.thread_id, message.seq, message.author_name, message.created_at, short)


def recent_sessions(read: Reader, caller: Caller, project: str, without_session: str | None) -> list[SessionNews]:
    """The last sessions in a project that the caller may see."""
    groups = sharing.readable_groups(read, sharing.reach_of(read, caller), project=project)
    found = sessions.list_sessions(read, groups, MOST_SESSIONS + 1, 0)
    news = []
    for session in [one for one in found if one.session_id != without_session][:MOST_SESSIONS]:
        texts = sessions.last_assistant_texts(read, session.agent_id, session.session_id, TURNS_PER_SESSION)
        decided = [sentence for text in texts for sentence in notable.decisions(text)]
        left_open = [sentence for text in texts[:3] for sentence in notable.open_points(text)]
        if not decided and not left_open and texts:
            decided = notable.sentences(texts[0])[:1]
        news.append(
            SessionNews(
                session_id=session.session_id,
                agent=session.agent,
                title=session.title,
                last_turn_at=session.last_turn_at,
                decided=[notable.one_line(one, 160) for one in dict.fromkeys(decided)][:3],
                left_open=[notable.one_line(one, 160) for one in dict.fromkeys(left_open)][:2],
            )
        )
    return news
