"""Elicitation: a client that shows forms asks its person the question of ask_human at once.

The question is in the inbox too, and the first answer counts. With the token of an agent there is only the inbox: what
such a client sends does not count as a person's answer.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from palaver.doors.authentication import Requester
from palaver.doors.mcp import tools
from palaver.doors.mcp.connection import Context
from palaver.errors import Conflict, PalaverError, Refused
from palaver.model.people import Caller, Session
from palaver.operations.bus.questions import AnswerQuestion, OneQuestion, answer_question, get_question

Asked = types.CallToolResult | types.InputRequiredResult
FORM = "question"


def can_ask(ctx: Context, requester: Requester, params: types.CallToolRequestParams) -> bool:
    """Whether this is a question that the client can show to a person, who may answer it."""
    given, caller = params.arguments or {}, requester.caller
    is_question = params.name == "ask_human" and isinstance(given.get("text"), str) and given.get("wait_s") != 0
    able = ctx.session.client_capabilities
    forms = able.elicitation if able else None
    shows_forms = forms is not None and (forms.form is not None or forms.url is None)
    return is_question and shows_forms and not (caller.is_authenticated and caller.is_agent)


async def ask(ctx: Context, requester: Requester, params: types.CallToolRequestParams) -> Asked:
    """Ask in the inbox and at the client. From 2026-07-28 on, the client calls again with the answer."""
    given: dict[str, Any] = params.arguments or {}
    again = {name: given[name] for name in ("agent_id", "token", "wait_s") if name in given}
    if id := params.request_state:
        return await _take(requester, given, id, (params.input_responses or {}).get(FORM)) or await tools.call(
            requester, params.name, again | {"question_id": id, "wait_s": 0}
        )
    asked = await tools.call(requester, params.name, {**given, "wait_s": 0})
    question = asked.structured_content or {}
    if asked.is_error or question["state"] != "open":
        return asked
    id, choices = question["question_id"], given.get("choices")
    answer = {"type": "string", "title": "Answer", **({"enum": choices} if choices else {})}
    fields = {"answer": answer, "note": {"type": "string", "title": "What else the agent should know"}}
    schema = {"type": "object", "properties": fields, "required": ["answer"]}
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        form = types.ElicitRequestFormParams(message=given["text"], requested_schema=schema)
        return types.InputRequiredResult(input_requests={FORM: types.ElicitRequest(params=form)}, request_state=id)
    asking = asyncio.create_task(ctx.session.elicit_form(given["text"], schema, ctx.request_id))
    waiting = asyncio.create_task(tools.call(requester, params.name, again | {"question_id": id}))
    try:
        await asyncio.wait((asking, waiting), return_when=asyncio.FIRST_COMPLETED)
        told = asking.result() if asking.done() and not asking.exception() else None
        return await _take(requester, given, id, told) or await waiting
    finally:
        asking.cancel()
        waiting.cancel()


async def _take(requester: Requester, given: dict[str, Any], id: str, told: Any) -> types.CallToolResult | None:
    """Store the answer of the person, unless somebody was faster. Returns an error if it cannot be one."""
    content = told.content if isinstance(told, types.ElicitResult) and told.action == "accept" else None
    answer = {name: text for name in ("answer", "note") if isinstance(text := (content or {}).get(name), str) and text}
    if "answer" not in answer:
        return None  # the question stays in the inbox
    person = replace(requester.caller, session=Session()) if requester.caller.is_authenticated else Caller("human")
    try:
        question = await get_question.perform(requester.workspace, person, OneQuestion(question_id=id))
        if question.text != given.get("text"):  # the client named another question
            raise Refused("This is not the question that was asked.")
        with suppress(Conflict):
            await answer_question.perform(requester.workspace, person, AnswerQuestion(question_id=id, **answer))
    except PalaverError as problem:
        return tools.text_result(problem.as_text(), is_error=True)
    return None
