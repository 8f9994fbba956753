"""Who may do what: every operation, as every kind of caller, with what is their own and what is another's.

What is expected is written in policy.py, a second time. Isolation between workspaces is in test_isolation.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from tests.conftest import ONE_ENGINE, Engine
from tests.faults.press import IS_LONG
from tests.fixes.sessions import ended_by
from tests.helpers import Mcp, Server, Thread, start_server, word
from tests.oauth.flow import Person, Program, bearer
from tests.trust.people import Key
from tests.trust.policy import OWNERSHIP, ROUTES, TOOLS
from tests.trust.worlds import ERROR, World, given, in_path

from palaver.model.admin.permissions import PERMISSIONS, RULES
from palaver.operations import OPERATIONS
from palaver.operations.operation import Operation

READ, WRITE, ADMIN = ("read",), ("read", "write"), ("read", "write", "admin")
CALLERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "reader": ("human", READ),
    "person": ("human", WRITE),
    "admin": ("human", ADMIN),
    "reading agent": ("agent", READ),
    "agent": ("agent", WRITE),
    "admin agent": ("agent", ADMIN),
    "application": ("agent", WRITE),
}
OWNERS = ["their own", "a person's", "an agent's"]
BY_NAME = {operation.name: operation for operation in OPERATIONS}

pytestmark = pytest.mark.on_postgres(caller=list(CALLERS) if IS_LONG else ["person", "admin agent"])


@dataclass
class Actor:
    """Somebody of the workspace. `makes` is a client of the same person or agent that may also write."""

    kind: str
    api: httpx.Client
    makes: httpx.Client
    name: str
    scopes: tuple[str, ...]
    is_agent: bool
    server: Server
    things: Things = field(init=False)

    def __post_init__(self) -> None:
        self.things = Things(self)


class Things(dict[str, str]):
    """What somebody owns. It is made when it is asked for, and made anew after `clear`."""

    def __init__(self, owner: Actor) -> None:
        super().__init__()
        self.owner = owner

    def __missing__(self, name: str) -> str:
        made = MAKERS[name](self)
        self.setdefault(name, made)
        return self[name]

    def post(self, path: str, **body: Any) -> Any:
        answer = self.owner.makes.post(path, json=body)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()


def _session(things: Things) -> str:
    """A session of the owner's agent."""
    name = word("s")
    agent = things["agent"]
    things.post(f"/api/v1/agents/{agent}/sessions/{name}/messages", role="user", content=word())
    return name


def _point(things: Things) -> str:
    """An open point in a session of the owner's agent."""
    left = word("left")
    told = {"role": "assistant", "content": f"TODO: rotate {left}"}
    things.post(f"/api/v1/agents/{things['agent']}/sessions/{word('s')}/messages", **told)
    return f"rotate {left}"


def _fix(things: Things) -> str:
    """What ended an error in a session of the owner's agent."""
    messages, command = (
        f"/api/v1/agents/{things['agent']}/sessions/{word('s')}/messages",
        f"uv sync --extra {word('x')}",
    )
    for role, content in ended_by(command, ERROR):
        things.post(messages, role=role, content=content)
    known = things.owner.makes.get("/api/fixes").json()["fixes"]
    return next((str(one["fix_id"]) for one in known if one["commands"] == [command]), "1-0")


def _claim(things: Things) -> str:
    project = word("project")
    if things.owner.is_agent:  # an agent claims files where it works
        things.post("/api/hooks/session-start", client="codex", session=word(), project=project)
    return str(things.post("/api/claims", patterns=[word()], project=project)["claims"][0]["claim_id"])


def _agent(things: Things) -> str:
    """The owner itself. For people an agent that they registered."""
    if things.owner.is_agent:
        return things.owner.name
    return str(things.post("/api/agents", display_name=(name := word("robo")), slug=name)["slug"])


def _token(things: Things) -> str:
    made = Key(things.owner.server, name=word("somebody"))
    return made.token.id


def _webhook(things: Things) -> str:
    """Only admins have webhooks."""
    admin = Key(things.owner.server, name=word("boss"), scopes=ADMIN)
    made = admin.api.post("/api/webhooks/incoming", json={"thread_id": things["thread_id"]})
    return str(made.json()["id"])


def _application(things: Things) -> str:
    """An application that the owner let in; agents let in none, so another person did."""
    owner = things.owner
    person = Person(owner.server, Key(owner.server, name=word("friend") if owner.is_agent else owner.name))
    Program(owner.server, name=(name := word("app"))).connect(person)
    (found,) = [one["id"] for one in person.browser.get("/api/applications").json() if one["name"] == name]
    return str(found)


MAKERS: dict[str, Callable[[Things], str]] = {
    "thread_id": lambda things: Thread(things.owner.makes).id,
    "message_id": lambda things: str(Thread(things.owner.makes).post(word(), author=None)["id"]),
    "question_id": lambda things: str(things.post("/api/questions", text=word(), wait_s=0)["question_id"]),
    "claim_id": _claim,
    "template_id": lambda things: str(
        things.post("/api/templates", id=word("t"), name=word(), system_prompt="x")["id"]
    ),
    "note_id": lambda things: str(things.post("/api/notes", title=word(), content=word())["id"]),
    "media_id": lambda things: str(things.post("/api/media", title=word(), media_type="video", content=word())["id"]),
    "character_id": lambda things: str(things.post("/api/characters", name=word(), description=word())["id"]),
    "chat_id": lambda things: str(things.post("/api/chats", title=word())["id"]),
    "prompt_id": lambda things: str(things.post("/api/prompts", name=word(), system_prompt=word())["id"]),
    "conversation_id": lambda things: "none",
    "uri": lambda things: f"notes://{things['note_id']}",
    "agent": _agent,
    "agent_id": lambda things: str(things.owner.makes.get(f"/api/agents/{things['agent']}").json()["agent_id"]),
    "session": _session,
    "session_id": _session,
    "point": _point,
    "fix_id": _fix,
    "search_id": lambda things: str(things.post("/api/searches", name=word(), query=word())["id"]),
    "token_id": _token,
    "webhook_id": _webhook,
    "application_id": _application,
}


@pytest.fixture(scope="module")
def server(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"permissions-{engine.name}")
    before = "from palaver.doors.oauth import routes; routes.REGISTRATIONS_A_MINUTE = 10_000"
    env: dict[str, Any] = {
        "PALAVER_AUTH": "token",
        "PALAVER_TOOL_LIMITS": "off",
        "PALAVER_DATABASE_URL": engine.fresh(),
    }
    with start_server(home, before=before, **env) as server:
        yield server


def actor(server: Server, kind: str) -> Actor:
    sort, scopes = CALLERS[kind]
    name = word(sort)
    if kind == "application":
        person = Person(server, Key(server, name=word("friend")))
        program = Program(server, name=name)
        api = bearer(server, program.connect(person, resource=server.url)["access_token"])
        (slug,) = [one["agent"] for one in person.browser.get("/api/applications").json() if one["name"] == name]
        return Actor(kind, api, api, slug, scopes, True, server)
    key, maker = Key(server, kind=sort, name=name, scopes=scopes), Key(server, kind=sort, name=name, scopes=WRITE)
    return Actor(kind, key.api, maker.api, key.token.name, scopes, sort == "agent", server)


@pytest.fixture(scope="module")
def actors(server: Server) -> dict[str, Actor]:
    return {kind: actor(server, kind) for kind in CALLERS}


@pytest.fixture(scope="module")
def others(server: Server) -> dict[str, Actor]:
    """Somebody else of each sort, to whom things belong."""
    return {"a person's": actor(server, "person"), "an agent's": actor(server, "agent")}


# The table


@ONE_ENGINE
def test_every_operation_has_a_row_and_no_row_is_left_over(engine: Engine):
    assert PERMISSIONS.keys() == BY_NAME.keys()
    assert {row.rule for row in PERMISSIONS.values()} == set(RULES)


@ONE_ENGINE
def test_the_table_says_what_the_policy_says(engine: Engine):
    for operation in OPERATIONS:
        row = PERMISSIONS[operation.name]
        assert (operation.name, row.rule.name) == (operation.name, OWNERSHIP.get(operation.name, "everybody"))
        needs = {ROUTES[f"{route.method} {route.path}"] for route in operation.routes}
        needs |= {TOOLS[tool.name] for tool in operation.tools}
        assert (operation.name, needs) == (operation.name, {row.scope})
    assert OWNERSHIP.keys() <= BY_NAME.keys()


# Every operation


def may(operation: Operation, caller: Actor, owner: str) -> bool:
    """What the policy expects."""
    scope = {ROUTES[f"{route.method} {route.path}"] for route in operation.routes}
    scope |= {TOOLS[tool.name] for tool in operation.tools}
    if not scope <= set(caller.scopes):
        return False
    is_own, is_admin = owner == "their own", "admin" in caller.scopes
    match OWNERSHIP.get(operation.name, "everybody"):
        case "author":
            return is_own or (is_admin and not caller.is_agent)
        case "creator":
            return is_own or is_admin
        case "participant":
            return is_own or not caller.is_agent
        case "itself":
            return is_own and caller.is_agent
        case "own agents":
            return is_own or (is_admin and not caller.is_agent)
        case "people":
            return not caller.is_agent
        case "own applications":
            return not caller.is_agent and (operation.name == "list_applications" or is_own or is_admin)
        case "own claims":
            return is_own or not caller.is_agent
        case "own sessions" | "shared sessions":
            return is_own or not caller.is_agent or not _names_agent(operation)
        case _:
            return True


def _names_agent(operation: Operation) -> bool:
    """Whether a call must name the agent of a session. Others answer agents about their own sessions only."""
    named = [operation.request.model_fields.get(name) for name in ("agent", "agent_id")]
    return any(field is not None and field.is_required() for field in named)


def try_it(operation: Operation, caller: Actor, owner: Actor) -> tuple[bool, str]:
    """Whether the caller is let through, and what was answered. Other errors than a refusal are no refusal."""
    world = World("w", word("nothing"), word("nothing"), owner.things)
    asked = given(operation, world)
    if OWNERSHIP.get(operation.name) == "own name":
        asked = {name: value for name, value in asked.items() if name not in ("agent_id", "author", "token")}
    if operation.name in ("record_turn", "merge_turns"):
        asked["agent"] = owner.things["agent"]
    if operation.name == "create_token":
        asked["kind"] = "human"
    if operation.name == "remove_agent":
        asked["agent_id"] = Key(owner.server, kind="agent", name=word("leaving")).token.agent_id
    if operation.routes:
        answer = _over_rest(operation, caller.api, asked)
        refused = answer.status_code in (401, 403) or (
            answer.status_code == 404 and OWNERSHIP.get(operation.name) in ("own applications", "own claims")
        )
        return not refused or "turned off" in answer.text, f"{answer.status_code} {answer.text[:200]}"
    known = {name: value for name, value in asked.items() if name in operation.request.model_fields}
    said = Mcp(caller.api).exchange("tools/call", name=operation.tools[0].name, arguments=known)
    text = json.dumps(said)
    return "FORBIDDEN" not in text and "scope" not in text, text[:300]


def _over_rest(operation: Operation, api: httpx.Client, asked: dict[str, Any]) -> httpx.Response:
    face = operation.routes[0]
    filled, rest = in_path(face.path, asked)
    also = {there: name for name, there in face.also.items()}
    rest = {also.get(name, name): content for name, content in rest.items()}
    if face.method in ("GET", "DELETE"):
        return api.request(face.method, filled, params=rest)
    return api.request(face.method, filled, json=rest)


@pytest.mark.examples(6)
@pytest.mark.thorough("postgres")
@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("caller", CALLERS)
def test_every_operation_lets_through_who_may_and_nobody_else(
    actors: dict[str, Actor], others: dict[str, Actor], caller: str, owner: str
):
    who = actors[caller]
    whose = who if owner == "their own" else others[owner]
    wrong = []
    for operation in OPERATIONS:
        rule = OWNERSHIP.get(operation.name, "everybody")
        if rule == "itself" and owner == "a person's":
            continue  # only agents are agents
        if rule in ("everybody", "masked", "people") and owner != "a person's" and not IS_LONG:
            continue  # it does not depend on the owner: `make faults` tries it
        whose.things.clear()
        passed, said = try_it(operation, who, whose)
        if passed != may(operation, who, owner):
            wrong.append((operation.name, "passed" if passed else "refused", said))
    assert wrong == [], "\n".join(map(str, wrong))


# In one's own name


@pytest.mark.parametrize("caller", CALLERS)
def test_nobody_sees_the_saved_searches_of_others(actors: dict[str, Actor], others: dict[str, Actor], caller: str):
    who = actors[caller]
    for owner in others.values():
        owner.things.clear()
        id = owner.things["search_id"]
        assert id in owner.makes.get("/api/searches").text
        assert id not in who.api.get("/api/searches").text
        assert who.api.put(f"/api/searches/{id}", json={"name": "mine"}).status_code in (403, 404)
        assert who.api.delete(f"/api/searches/{id}").status_code in (403, 404)
        assert id in owner.makes.get("/api/searches").text


@pytest.mark.parametrize("caller", [name for name, (_, scopes) in CALLERS.items() if "write" in scopes])
def test_nobody_acts_in_the_name_of_another_agent(actors: dict[str, Actor], others: dict[str, Actor], caller: str):
    who, agent = actors[caller], others["an agent's"]
    thread = Thread(agent.makes)
    message = thread.post(word(), author=None)
    agent.makes.post(f"/api/messages/{message['id']}/reactions", json={"reaction": "agree"})
    me = agent.makes.get(f"/api/agents/{agent.name}").json()
    attempts = [
        who.api.post(f"{thread.path}/messages", json={"content": word(), "author": agent.name}),
        who.api.post(f"/api/messages/{message['id']}/reactions", json={"reaction": "x", "agent_id": me["agent_id"]}),
        who.api.delete(f"/api/messages/{message['id']}/reactions/agree", params={"agent_id": me["agent_id"]}),
    ]
    assert [attempt.status_code for attempt in attempts] == [403, 403, 403]
    (kept,) = [one for one in agent.makes.get(f"{thread.path}/messages").json() if one["id"] == message["id"]]
    assert [reaction["reaction"] for reaction in kept["reactions"]] == ["agree"]
