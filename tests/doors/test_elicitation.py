"""A client that shows forms asks its person the question of ask_human; the inbox has it too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import anyio.from_thread
import httpx
import pytest
from mcp.client.client import Client
from mcp_types import ElicitRequestFormParams, ElicitResult, Implementation
from tests.conftest import Engine
from tests.helpers import Server, eventually, start_server, word
from tests.mcp_clients import Stateless
from tests.trust.people import Key

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True, scope="session")
ERAS: list[Any] = ["legacy", "2026-07-28"]
Person = Callable[[ElicitRequestFormParams], ElicitResult]


def ask(server: Server, era: Any, person: Person | None, **arguments: Any) -> dict[str, Any]:
    """The answer of ask_human for a client whose person answers forms like this. None: they look at it for ever."""

    async def show(context: Any, params: Any) -> ElicitResult:
        if person is None:
            await asyncio.Event().wait()
        assert person
        return person(params)

    async def call() -> dict[str, Any]:
        about = Implementation(name=word("program-"), version="1")
        async with Client(f"{server.url}/mcp", mode=era, elicitation_callback=show, client_info=about) as client:
            await client.call_tool("bus_connect", {"thread_name": word()})
            result = await client.call_tool("ask_human", arguments)
            return result.structured_content or {"error": str(result.content)}

    with anyio.from_thread.start_blocking_portal() as portal:
        return portal.call(call)


def answers(answer: str, note: str = "") -> Person:
    return lambda params: ElicitResult(action="accept", content={"answer": answer, "note": note})


@pytest.mark.parametrize("era", ERAS)
def test_the_person_at_the_client_answers(server: Server, api: httpx.Client, era: Any):
    shown: list[ElicitRequestFormParams] = []

    def person(params: ElicitRequestFormParams) -> ElicitResult:
        shown.append(params)
        return answers("yes", "but not on Friday")(params)

    text = f"Deploy {word()} now?"
    told = ask(server, era, person, text=text, choices=["yes", "no"])
    assert (told["state"], told["answered_by"]) == ("answered", "human")
    assert told["answer"] == "yes\n\nbut not on Friday"
    assert shown[0].message == text
    assert shown[0].requested_schema["properties"]["answer"]["enum"] == ["yes", "no"]
    assert api.get(f"/api/questions/{told['question_id']}").json()["choice"] == "yes"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_who_closes_the_form_leaves_the_question_in_the_inbox(server: Server, api: httpx.Client, era: Any, action: Any):
    told = ask(server, era, lambda params: ElicitResult(action=action), text=f"Deploy {word()}?", wait_s=1)
    assert told["state"] == "open"
    assert api.get(f"/api/questions/{told['question_id']}").json()["state"] == "open"


def test_an_answer_in_the_inbox_ends_the_wait_for_the_form(server: Server, api: httpx.Client):
    text = f"Deploy {word()}?"

    def open_questions() -> list[str]:
        return [one["question_id"] for one in api.get("/api/questions").json()["questions"] if one["text"] == text]

    with anyio.from_thread.start_blocking_portal() as portal:
        asking = portal.start_task_soon(anyio.to_thread.run_sync, lambda: ask(server, "legacy", None, text=text))
        (id,) = eventually(open_questions)
        api.post(f"/api/questions/{id}/answer", json={"answer": "no"}).raise_for_status()
        told = asking.result(60)
    assert (told["question_id"], told["answer"]) == (id, "no")


class Forms(Stateless):
    """A client that shows forms, seen from below."""

    able: ClassVar[dict[str, Any]] = {"elicitation": {"form": {}}}

    def call_again(self, text: str, id: str) -> dict[str, Any]:
        given = {"question": {"action": "accept", "content": {"answer": "yes"}}}
        arguments = {"text": text, "wait_s": 1}
        return self.ask("tools/call", name="ask_human", arguments=arguments, inputResponses=given, requestState=id)


def test_an_answer_is_for_the_question_that_was_shown(server: Server, api: httpx.Client):
    forms, text = Forms(api, word("program-")), f"Deploy {word()}?"
    forms.call("bus_connect", thread_name=word())
    other = api.post("/api/questions", json={"text": f"Delete {word()}?", "wait_s": 0}).json()["question_id"]
    asked = forms.ask("tools/call", name="ask_human", arguments={"text": text})
    assert asked["resultType"] == "input_required"
    assert forms.call_again(text, other)["isError"]
    assert api.get(f"/api/questions/{other}").json()["state"] == "open"
    id = asked["requestState"]
    api.post(f"/api/questions/{id}/answer", json={"answer": "no"}).raise_for_status()
    assert forms.call_again(text, id)["structuredContent"]["answer"] == "no", "the first answer counts"


def test_with_the_token_of_an_agent_there_is_only_the_inbox(engine: Engine, tmp_path: Path):
    with start_server(tmp_path, PALAVER_AUTH="token", PALAVER_DATABASE_URL=engine.fresh()) as server:
        robo, ann = Key(server, kind="agent", name="robo"), Key(server, name="ann")
        text = f"Deploy {word()}?"
        asked = Forms(robo.api, token=robo.secret).ask(
            "tools/call", name="ask_human", arguments={"text": text, "wait_s": 1}
        )
        id = asked["structuredContent"]["question_id"]
        assert Forms(robo.api, token=robo.secret).call_again(text, id)["structuredContent"]["state"] == "open"
        assert ann.api.get(f"/api/questions/{id}").json()["state"] == "open"
        forms = Forms(ann.api, token=ann.secret)
        id = forms.ask("tools/call", name="ask_human", arguments={"text": text})["requestState"]
        assert forms.call_again(text, id)["structuredContent"]["answered_by"] == "ann"
