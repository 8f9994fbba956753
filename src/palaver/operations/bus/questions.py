"""Questions to people: an agent asks, one person answers in the inbox, and the agent gets exactly that answer.

A question is a message, and the answer is a message that replies to it, so the agent hears of it like of any reply.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field

from palaver.errors import Conflict, Forbidden, Refused, must_be_found
from palaver.model import visibility
from palaver.model.answers import answer_of
from palaver.model.events import question_changed
from palaver.model.messages import InboxQuestion, QuestionState
from palaver.model.people import Caller
from palaver.model.requests import Id, Line, NotBlank, Request, Text, Trimmed, clamp
from palaver.model.times import iso, now
from palaver.operations import identity
from palaver.operations.bus.messages import PostMessage, must_not_be_empty, post_message
from palaver.operations.bus.threads import CreateThread, Topic, open_thread
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.store.bus import mentions, questions, threads
from palaver.store.bus.questions import StoredQuestion
from palaver.store.bus.read_marks import ThreadReader
from palaver.store.engines.database import Change, Reader
from palaver.store.workspaces import Workspace

TOPIC = "Questions"
"""The thread of questions that name no other."""
OPEN = "Nobody has answered yet. The answer will reply to your message; or call ask_human with question_id to wait on."
EXPIRED = "Nobody answered in time. Take that as no."


class AskHuman(Request):
    text: Text | None = None
    """The question. It must make sense by itself, and it cannot be edited later."""
    choices: Annotated[list[Annotated[Line, NotBlank, Trimmed]], Field(max_length=10)] | None = None
    """The possible answers, such as yes and no. Default: free text."""
    thread_id: Topic | None = None
    """Id or topic of the thread to ask in. Default: the thread "Questions"."""
    deadline_s: Annotated[int, clamp(5, 30 * 86_400)] = 86_400
    """Seconds until the question expires. After that the answer is no. Default: a day."""
    wait_s: Annotated[int, clamp(0, 600)] = 45
    """Seconds to wait for the answer in this call. Many clients end a call after 60 s. Default: 45."""
    question_id: Id | None = None
    """Wait on for the answer to this earlier question of yours, instead of asking."""
    agent_id: Id | None = None
    """You, from bus_connect."""
    token: Id | None = None
    """Your token."""


@dataclass(frozen=True, slots=True)
class ToolQuestion:
    question_id: str
    thread_id: str
    state: QuestionState
    answer: str | None
    answered_by: str | None
    expires_at: datetime
    hint: str | None


def _for_agent(question: InboxQuestion) -> ToolQuestion:
    hints = {"open": OPEN, "expired": EXPIRED}
    return answer_of(ToolQuestion, question, hint=hints.get(question.state))


@operation(
    Tool("ask_human", acts=True, show=_for_agent),
    Route("POST", "/api/questions", status=201),
    Command("ask", rest="text", columns=("question_id", "state", "answer", "answered_by", "expires_at")),
)
async def ask_human(workspace: Workspace, caller: Caller, request: AskHuman) -> InboxQuestion:
    """Ask a person, and wait for the answer. If it does not come in time, you get the id of the question."""
    if request.agent_id and request.token and caller.acting_agent != request.agent_id:
        said = identity.Credentials(request.agent_id, request.token)
        caller = await workspace.read(lambda read: identity.resolve(read, caller, said))
    question_id = request.question_id
    if question_id is None:
        question_id = (await workspace.change(lambda change: _ask(change, caller, request))).question_id
    question = await wait_for_answer(workspace, caller, question_id, request.wait_s)
    if (answer := question.answer_passage_id) and caller.acting_agent:  # the agent has it now, so it is no news
        names = ThreadReader(await workspace.read(lambda read: identity.agent_of(read, caller)), None).names
        await workspace.change(lambda change: mentions.mark_seen(change, names, [answer]))
    return answer_of(InboxQuestion, question)


def _ask(change: Change, caller: Caller, request: AskHuman) -> StoredQuestion:
    if request.text is None:
        raise Refused("text: is required, or the question_id of an earlier question.")
    if not visibility.sees_everything(caller):
        identity.must_be_agent(change, caller)
    return put(change, caller, request.text, request.choices or [], request.deadline_s, thread_id=request.thread_id)


def put(
    change: Change,
    caller: Caller,
    text: str,
    choices: list[str],
    seconds: int,
    *,
    thread_id: str | None = None,
    topic: str = TOPIC,
    permission: dict[str, str] | None = None,
) -> StoredQuestion:
    """Post a question and tell the inbox of it. Requests for a permission are for people only."""
    thread_id = thread_id or open_thread(change, CreateThread(topic=topic), caller)[0].thread.id
    facts = {"choices": choices, "permission": permission} if permission else {"choices": choices}
    metadata = {questions.FACTS: facts, **(visibility.FOR_PEOPLE if permission else {})}
    message = post_message.work(change, caller, PostMessage(thread_id=thread_id, content=text, metadata=metadata))
    stored = questions.add(change, message.id, now() + timedelta(seconds=seconds))
    change.tell(question_changed("question.new", stored, stored.metadata))
    return stored


async def wait_for_answer(workspace: Workspace, caller: Caller, question_id: str, seconds: float) -> StoredQuestion:
    """The question once it is answered or expired, or after so many seconds."""
    question = await workspace.read(lambda read: must_see(read, caller, question_id))
    return await workspace.wait_until(
        lambda question: question.state != "open",
        lambda read: must_see(read, caller, question_id),
        seconds,
        thread_id=question.thread_id,
        look_again=max(0.0, (question.expires_at - now()).total_seconds()),
    )


def must_see(read: Reader, caller: Caller, question_id: str) -> StoredQuestion:
    """The question. Agents see their own only."""
    stored = questions.find(read, question_id)
    if stored and not visibility.sees_question(caller, stored.agent_id):
        stored = None
    return must_be_found(stored, "question", question_id, "List the questions of the inbox to see which exist.")


class OneQuestion(Request):
    question_id: Id
    """Id of the question."""


@operation(Route("GET", "/api/questions/{question_id}"), Command("question", takes=("question_id",)))
def get_question(read: Reader, caller: Caller, request: OneQuestion) -> InboxQuestion:
    """Get a question with its answer. Agents get their own questions only."""
    return _for_inbox(read, caller, must_see(read, caller, request.question_id))


def _for_inbox(read: Reader, caller: Caller, stored: StoredQuestion) -> InboxQuestion:
    earlier = questions.earlier_answers(read, stored) if visibility.sees_everything(caller) else []
    return answer_of(InboxQuestion, stored, earlier=earlier)


class ListQuestions(Request):
    state: Literal["open", "answered", "expired", "all"] = "open"
    """Only questions in this state."""
    limit: Annotated[int, clamp(1, 200)] = 50
    """Maximum number of questions, up to 200."""


@dataclass(frozen=True, slots=True)
class Questions:
    questions: list[InboxQuestion]


@operation(
    Route("GET", "/api/questions"),
    Command("inbox", columns=("question_id", "asked_by", "text", "choices", "expires_at"), rows="questions"),
)
def list_questions(read: Reader, caller: Caller, request: ListQuestions) -> Questions:
    """List the questions that wait for a person, the newest first. Agents get their own questions only."""
    own = None if visibility.sees_everything(caller) else caller.acting_agent or ""
    found = questions.newest(read, request.state, own, request.limit)
    return Questions([_for_inbox(read, caller, one) for one in found])


class AnswerQuestion(OneQuestion):
    answer: Text
    """The answer: one of the choices, if the question has any."""
    note: Text | None = None
    """What else the agent should know."""
    author: Line | None = None
    """Your name, on a server without tokens."""
    agent_id: Id | None = None
    """An agent that names itself here is refused."""


@operation(
    Route("POST", "/api/questions/{question_id}/answer"),
    Command("answer", takes=("question_id",), rest="answer", columns=("question_id", "answer", "answered_by")),
)
def answer_question(change: Change, caller: Caller, request: AnswerQuestion) -> InboxQuestion:
    """Answer a question in the inbox. Only a person can, and only the first answer counts."""
    names_agent = request.agent_id and not caller.is_authenticated  # with a token, only the token decides
    if names_agent or not visibility.is_person(caller):
        raise Forbidden("Only people answer questions. This caller is an agent: wait for a person.")
    threads.lock(change, must_see(change, caller, request.question_id).document_id)
    stored = must_see(change, caller, request.question_id)
    must_not_be_empty(request.answer)
    known = {one.casefold(): one for one in stored.choices}
    choice = known.get(request.answer.strip().casefold())
    if known and choice is None:
        raise Refused(f"answer: must be one of {', '.join(known.values())}. Put everything else into note.")
    author = identity.author_of(change, caller, request.author)
    if author.agent:
        raise Forbidden(f"'{author.label}' is an agent, and only people answer questions. Leave author out.")
    if not questions.take_answer(change, stored, author.name, choice):
        raise Conflict(_too_late(stored))
    text = "\n\n".join(part for part in (choice or request.answer, request.note) if part and part.strip())
    reply = PostMessage(
        thread_id=stored.thread_id,
        content=text,
        reply_to_msg_id=request.question_id,
        author=request.author,
        metadata={**visibility.FOR_PEOPLE} if visibility.is_human_only(stored.metadata) else None,
    )
    stored = questions.set_answer_message(change, stored, post_message.work(change, caller, reply).id)
    change.tell(question_changed("question.answered", stored, stored.metadata))
    return _for_inbox(change, caller, stored)


def _too_late(question: InboxQuestion) -> str:
    if question.state == "answered":
        return f"{question.answered_by} has already answered this question: {question.answer or 'the text was deleted'}"
    return f"This question expired at {iso(question.expires_at)}. Nobody answered it, and that counts as no."


def end_question(change: Change, question_id: str) -> None:
    """Nobody waits for the answer any more."""
    questions.end(change, must_be_found(questions.find(change, question_id), "question", question_id))
    tell_expired(change)


def tell_expired(change: Change) -> None:
    """Tell listeners of questions that nobody answered in time."""
    for one in questions.expire(change):
        change.tell(question_changed("question.expired", one, one.metadata))


async def expire_questions(workspace: Workspace) -> None:
    if await workspace.read(questions.has_expired):
        await workspace.change(tell_expired)
