"""Nobody sees anything of a workspace that is not theirs: every door, everybody who may come, three workspaces.

The doors are read from the program itself and held against the policy (policy.py): a new one without a row fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from starlette.routing import BaseRoute, Mount, Route
from tests.conftest import Engine
from tests.faults.press import IS_LONG, tell
from tests.helpers import Mcp, Thread, listen, start_server, word
from tests.mcp_clients import Websocket
from tests.trust.policy import ENDS, PEOPLE_ONLY, RESOURCES, ROUTES, TOOLS
from tests.trust.worlds import CREATES, Comer, Scene, World, absent, given, in_path, set_up, value
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from palaver.app import App
from palaver.doors.cli import main
from palaver.doors.http.routes import web_application
from palaver.doors.mcp import lazy_app
from palaver.operations import OPERATIONS
from palaver.operations.operation import Operation
from palaver.settings import Settings

OF_ROUTE = {f"{route.method} {route.path}": operation for operation in OPERATIONS for route in operation.routes}
OF_TOOL = {tool.name: operation for operation in OPERATIONS for tool in operation.tools}
COMERS = [
    "nobody", "forger", "revoked", "run out", "stale cookie", "reader", "reading agent", "writer", "browser", "application",
    "admin of 0", "agent of 0", "admin of 1", "agent of 1", "admin of 2", "agent of 2",
]  # fmt: skip
STRANGERS = [comer for comer in COMERS if comer in ("nobody", "forger", "revoked", "run out", "stale cookie")]
KNOWN = [comer for comer in COMERS if comer not in STRANGERS]

pytestmark = pytest.mark.on_postgres(comer=COMERS if IS_LONG else ["nobody", "admin of 1", "agent of 2"])
"""`make faults` tests all callers on both engines."""


@pytest.fixture(scope="module")
def scene(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    home = tmp_path_factory.mktemp(f"isolated-{engine.name}")
    # Nobody falls silent in the middle: that would change what two looks see.
    with start_server(
        home, PALAVER_AUTH="token", PALAVER_HEARTBEAT_TIMEOUT=3600, PALAVER_DATABASE_URL=engine.fresh()
    ) as server:
        yield set_up(server)


@pytest.fixture(scope="module")
def checks(engine: Engine, request: pytest.FixtureRequest) -> Iterator[list[int]]:
    """How many answers were looked at, of all these tests together."""
    count, failed = [0], request.session.testsfailed
    yield count
    broken = request.session.testsfailed - failed
    tell(f"{count[0]} answers looked at, {broken} tests failed", f"tests/trust/test_isolation.py::[{engine.name}]")


@pytest.fixture
def comer(request: pytest.FixtureRequest, scene: Scene) -> Comer:
    return scene.comers[request.param]


def foreign_worlds(scene: Scene, comer: Comer) -> list[World]:
    """One workspace that is not the caller's; `make faults` takes all of them.

    Callers take turns: together they ask from every workspace for every other one.
    """
    others = scene.others(comer)
    return others if IS_LONG else [others[COMERS.index(comer.kind) % len(others)]]


# The policy and the program


def doors(tmp_path: Path) -> set[str]:
    """Every route of the running program."""
    app = App(Settings(home=tmp_path, auth="token"))  # OAuth has routes only there
    guard: Any = web_application(app)
    found: set[str] = set()

    def walk(routes: list[BaseRoute], before: str = "") -> None:
        for route in routes:
            if isinstance(route, Route):
                found.update(f"{method} {before}{route.path}" for method in (route.methods or set()) - {"HEAD"})
            elif isinstance(route, lazy_app.LazyMcpRoute):
                found.update(f"* {path}" for path in lazy_app.PATHS)
            elif isinstance(route, Mount):
                walk(list(route.routes), before + route.path)
            else:
                found.add(f"? {route}")

    walk(guard._inner.routes)
    return found


def test_every_door_has_a_row_in_the_policy(tmp_path: Path):
    assert doors(tmp_path) == set(ROUTES)


def test_every_tool_has_a_row_in_the_policy(scene: Scene):
    assert set(OF_TOOL) == set(TOOLS)
    for kind in KNOWN[:3]:
        listed = (
            Mcp(scene.comers[kind].api, "/mcp?names=dotted").ask("tools/list")["tools"] if kind != "browser" else []
        )
        assert {tool["name"] for tool in listed} <= set(TOOLS)


def test_every_resource_has_a_row_in_the_policy(scene: Scene):
    mcp = Mcp(scene.comers["writer"].api)
    fixed = {one["uri"] for one in mcp.ask("resources/list")["resources"]}
    by_id = {one["uriTemplate"] for one in mcp.ask("resources/templates/list")["resourceTemplates"]}
    assert fixed | by_id == RESOURCES


def test_the_program_asks_for_what_the_policy_says():
    """Not less, and not more."""
    for door, operation in OF_ROUTE.items():
        assert (door, operation.scope) == (door, ROUTES[door])
    for tool, operation in OF_TOOL.items():
        assert (tool, operation.scope) == (tool, TOOLS[tool])


def test_a_number_that_is_taken_elsewhere_is_free_here(scene: Scene):
    """Before anything else is asked: the first workspace has one of each, the third has three."""
    third = list(scene.worlds.values())[2]
    for path in ("/api/media/{media_id}", "/api/media/{media_id}/transcript", "/api/characters/{character_id}"):
        foreign, nothing = in_path(path, third.things)[0], in_path(path, absent(third).things)[0]
        answer, empty = (scene.comers["writer"].api.get(address) for address in (foreign, nothing))
        assert answer.status_code == empty.status_code == 404
        assert answer.text.replace("'3'", "'…'") == empty.text.replace("'987654'", "'…'")


# Looking at answers


def raw(answer: httpx.Response) -> str:
    return answer.text + "\n" + "\n".join(f"{name}: {text}" for name, text in answer.headers.items())


def shown(scene: Scene, comer: Comer, said: str, *asked: str) -> list[str]:
    """What of others can be read in an answer, besides what the caller said first."""
    own = " ".join(asked)
    return sorted(mark for mark in scene.marks_of_others(comer) if mark in said and mark not in own)


def alike(said: str, world: World) -> str:
    """An answer without what differs each time."""
    for thing in sorted({*world.things.values(), world.said, world.secret, world.name}, key=len, reverse=True):
        if not thing.isdecimal() or len(thing) > 7:
            said = said.replace(thing, "…").replace(json.dumps(thing)[1:-1], "…")
    said = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", said)
    said = re.sub(r'("agent":"[a-z-]+?)-\d+"', r'\1"', said)  # each session at work is another agent
    said = re.sub(r"own[0-9a-f]{16}|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}|plv_\w+", "ID", said)
    return re.sub(
        r'"(id|seq|version|current_seq|latest_seq|number)":\s*\d+|"s_\w+"|^content-length: \d+$', "N", said, flags=re.M
    )


def ends(door: str) -> bool:
    method, _, path = door.partition(" ")
    return method in ENDS or any(path.endswith(end) for end in ENDS)


def ask(comer: Comer, door: str, world: World) -> tuple[httpx.Response, str]:
    """Knock at a door, asking for the things of this world; the answer, and everything that was said in asking."""
    method, _, path = door.partition(" ")
    operation = OF_ROUTE.get(door)
    if operation is None:
        return _ask_beside(comer, method, path, world)
    (face,) = [route for route in operation.routes if f"{route.method} {route.path}" == door]
    filled, rest = in_path(face.path, given(operation, world))
    also = {there: name for name, there in face.also.items()}
    rest = {also.get(name, name): content for name, content in rest.items()}
    if method in ("GET", "DELETE"):
        answer = comer.api.request(method, filled, params=rest)
    else:
        answer = comer.api.request(method, filled, json=rest)
    return answer, json.dumps([filled, rest], ensure_ascii=False) + filled


def _ask_beside(comer: Comer, method: str, path: str, world: World) -> tuple[httpx.Response, str]:
    things = world.things | {"id": world.things["job"], "path": "js/app.js", "resource": "mcp"}
    things |= {"workspace": world.name, "key": "plh_unknown"}
    filled, _ = in_path(path, things)
    more: dict[str, Any] = {}
    if path in ("/api/upload/image", "/api/upload/file"):
        more["files"] = {"file": ("a.png", b"\x89PNG\r\n\x1a\n")}
    elif path == "/api/import":
        more["files"] = {"file": ("conversations.json", b"[]")}
    elif path == "/api/session" and method == "POST":
        more["json"] = {"token": "plv_wrong"}
    if ROUTES.get(f"{method} {path}") != "stream":
        return comer.api.request(method, filled, **more), filled
    with comer.api.stream(method, filled) as answer:
        first = next(answer.iter_bytes(), b"")
        whole = httpx.Response(answer.status_code, content=first, headers=_without_length(answer.headers))
    return whole, filled


def _without_length(headers: httpx.Headers) -> dict[str, str]:
    left_out = ("content-length", "transfer-encoding", "content-encoding")
    return {name: text for name, text in headers.items() if name.lower() not in left_out}


# The doors of HTTP


HTTP = [door for door in ROUTES if not door.startswith("*")]
BUT_ONCE = {"DELETE /api/session"}  # whoever asks it is out
COUNTING = {"GET /metrics", "GET /api/audit", "GET /api/tokens", "GET /api/status"}  # they count what we do ourselves
COUNTING |= {"PUT /api/read-marks"}  # takes no argument; the second call finds nothing unread in our own workspace
HTTP_ALIKE = {
    door
    for door in HTTP
    if ROUTES[door] not in ("public", "login") and not (door in OF_ROUTE and OF_ROUTE[door].name in CREATES)
} - COUNTING


@pytest.mark.parametrize("comer", STRANGERS, indirect=True)
def test_who_has_no_good_token_gets_nothing_anywhere(scene: Scene, comer: Comer, checks: list[int]):
    wrong: list[Any] = []
    for door in HTTP:
        for world in foreign_worlds(scene, comer):
            answer, asked = ask(comer, door, world)
            checks[0] += 1
            if ROUTES[door] in ("public", "login"):
                is_right = answer.status_code in (200, 400, 401, 403, 404)
            else:
                is_right = answer.status_code == 401 and "www-authenticate" in answer.headers
            if not is_right or shown(scene, comer, raw(answer), asked):
                wrong.append((door, answer.status_code, shown(scene, comer, raw(answer), asked)))
    for door in ("/mcp", "/sse", "/messages/"):
        for method in ("GET", "POST", "DELETE"):
            checks[0] += 1
            if comer.api.request(method, door).status_code != 401:
                wrong.append((method, door))
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://127.0.0.1:{scene.server.port}/mcp/ws", additional_headers=dict(comer.api.headers))
    assert refused.value.response.status_code == 401
    assert wrong == []


@pytest.mark.examples(4)
@pytest.mark.parametrize("comer", KNOWN, indirect=True)
def test_what_is_elsewhere_is_nowhere(scene: Scene, comer: Comer, checks: list[int]):
    """Asked for another workspace's things, every door answers as if there were none."""
    wrong: list[Any] = []
    for door in HTTP:
        if door in BUT_ONCE:
            continue
        for world in foreign_worlds(scene, comer):
            nowhere = absent(world)
            (answer, asked), (empty, _) = ask(comer, door, world), ask(comer, door, nowhere)
            checks[0] += 1
            seen = shown(scene, comer, raw(answer), asked)
            if seen:
                wrong.append((door, "shows", seen))
            if _must_be_refused(comer, door) and answer.status_code != 403:
                wrong.append((door, answer.status_code, "without the scope"))
            is_numbered = {"media_id", "character_id"} & set(re.findall(r"{(\w+)", door))
            if is_numbered:
                continue  # in every workspace there is a first and a second
            if answer.status_code != empty.status_code:
                wrong.append(
                    (door, answer.status_code, "and where there is nothing", empty.status_code, answer.text[:200])
                )
            elif door in HTTP_ALIKE and alike(answer.text, world) != alike(empty.text, nowhere):
                wrong.append((door, alike(answer.text, world)[:300], alike(empty.text, nowhere)[:300]))
    assert wrong == []


def _must_be_refused(comer: Comer, door: str) -> bool:
    need = ROUTES[door]
    if need in ("read", "write", "admin") and need not in comer.scopes:
        return True
    return comer.is_agent and door in PEOPLE_ONLY


@pytest.mark.examples(4)
@pytest.mark.parametrize("comer", KNOWN, indirect=True)
def test_in_ones_own_workspace_nothing_of_others_is_shown(scene: Scene, comer: Comer, checks: list[int]):
    assert comer.home
    world = scene.worlds[comer.home]
    wrong: list[Any] = []
    for door in HTTP:
        if ends(door):
            continue
        answer, asked = ask(comer, door, world)
        checks[0] += 1
        seen = shown(scene, comer, raw(answer), asked)
        if seen:
            wrong.append((door, "shows", seen))
        if _must_be_refused(comer, door):
            if answer.status_code != 403:
                wrong.append((door, answer.status_code, "without the scope"))
        elif answer.status_code >= 500 or (answer.status_code in (401, 403) and not _may_be_refused(comer, door)):
            wrong.append((door, answer.status_code, answer.text[:200]))
    assert wrong == []


def _may_be_refused(comer: Comer, door: str) -> bool:
    """Also in one's own workspace one acts only for oneself; agents change only threads that they posted in; fetching is
    switched off; and /token asks for a client."""
    if comer.is_agent and re.match(r"(PUT|POST) /api/threads/\{thread_id\}", door):
        return True
    return bool(re.search(r"agents|messages|reactions|session|conversations/search|fetch|/token$", door))


# The doors of MCP


def speak(comer: Comer, method: str, **params: Any) -> str:
    return json.dumps(Mcp(comer.api).exchange(method, **params), ensure_ascii=False)


AGENTS = [comer for comer in KNOWN if comer != "browser"]


def call(mcp: Mcp, tool: str, world: World) -> tuple[dict[str, Any], str]:
    arguments = given(OF_TOOL[tool], world)
    known = {name: text for name, text in arguments.items() if name in OF_TOOL[tool].request.model_fields}
    return mcp.exchange("tools/call", name=tool, arguments=known), json.dumps(known, ensure_ascii=False)


@pytest.mark.examples(4)
@pytest.mark.parametrize("comer", AGENTS, indirect=True)
def test_no_tool_tells_of_another_workspace(scene: Scene, comer: Comer, checks: list[int]):
    mcp = Mcp(comer.api)
    assert _wrong_tools(mcp, scene, comer, checks) == []


@pytest.mark.parametrize("comer", AGENTS if IS_LONG else ["admin of 1", "agent of 0"], indirect=True)
def test_no_tool_tells_of_another_workspace_over_a_websocket(scene: Scene, comer: Comer, checks: list[int]):
    token = {"authorization": comer.api.headers["authorization"]}
    with connect(f"ws://127.0.0.1:{scene.server.port}/mcp/ws", additional_headers=token, max_size=None) as connection:
        assert _wrong_tools(Websocket(connection), scene, comer, checks) == []


def _wrong_tools(mcp: Mcp, scene: Scene, comer: Comer, checks: list[int]) -> list[Any]:
    wrong: list[Any] = []
    assert comer.home
    worlds = [scene.worlds[comer.home], *foreign_worlds(scene, comer)]
    for tool in TOOLS:
        for world in worlds:
            is_own = world.name == comer.home
            if is_own and re.search("delete|close|archive$|unregister", tool):
                continue
            answer, asked = call(mcp, tool, world)
            checks[0] += 1
            text = json.dumps(answer, ensure_ascii=False)
            seen = shown(scene, comer, text, asked)
            if seen:
                wrong.append((tool, "shows", seen))
            if TOOLS[tool] not in comer.scopes:
                if "FORBIDDEN" not in text:
                    wrong.append((tool, "without the scope", text[:200]))
            elif "The server failed" in text or "result" not in answer:
                wrong.append((tool, text[:300]))
    return wrong


@pytest.mark.examples(4)
@pytest.mark.parametrize("comer", AGENTS, indirect=True)
def test_no_resource_and_no_prompt_tells_of_another_workspace(scene: Scene, comer: Comer, checks: list[int]):
    assert comer.home
    mcp = Mcp(comer.api)
    wrong: list[Any] = []
    worlds = [scene.worlds[comer.home], *foreign_worlds(scene, comer)]
    for uri in RESOURCES:
        for world in worlds:
            asked = uri.replace("{id}", _thing_of(uri, world))
            answer = json.dumps(mcp.exchange("resources/read", uri=asked), ensure_ascii=False)
            checks[0] += 1
            if seen := shown(scene, comer, answer, asked):
                wrong.append((uri, seen))
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        answer = json.dumps(mcp.exchange(method), ensure_ascii=False)
        checks[0] += 1
        if seen := shown(scene, comer, answer):
            wrong.append((method, seen))
    for world in worlds:
        for name in (f"prompt {world.text}", world.things["prompt_id"], f"prompts://{world.things['prompt_id']}"):
            answer = json.dumps(mcp.exchange("prompts/get", name=name, arguments={}), ensure_ascii=False)
            checks[0] += 1
            if seen := shown(scene, comer, answer, name):
                wrong.append((name, seen))
    assert wrong == []


def _thing_of(uri: str, world: World) -> str:
    of = {"chat": "thread_id", "bus": "thread_id", "notes": "note_id", "media": "media_id", "chats": "chat_id"}
    of |= {"characters": "character_id", "prompts": "prompt_id", "sessions": "session_id", "archive": "conversation_id"}
    return world.things[of[uri.partition(":")[0]]]


# The streams


@pytest.mark.parametrize("comer", ["agent of 0", "admin of 1", "browser", "reader"], indirect=True)
def test_nobody_hears_what_happens_elsewhere(scene: Scene, comer: Comer, checks: list[int]):
    with listen(comer.api) as listener:
        for kind in ("admin of 0", "admin of 1", "admin of 2"):
            writer = scene.comers[kind]
            if writer.home == comer.home:
                continue
            assert writer.home
            world = scene.worlds[writer.home]
            thread = Thread(writer.api, f"loud {word()} {world.text}")
            message = thread.post(f"loud {world.text}", author=None)
            writer.api.post(f"/api/messages/{message['id']}/reactions", json={"reaction": world.text})
            writer.api.delete(thread.path)
        inside = next(c for c in scene.comers.values() if c.home == comer.home and "admin" in c.scopes)
        sentinel = Thread(inside.api).post("that is all", author=None)
        heard = listener.until(lambda told: told.data.get("id") == sentinel["id"])
    checks[0] += len(heard)
    assert [(told.type, told.data) for told in heard if shown(scene, comer, json.dumps(told.data))] == []
    assert len(heard) == 2, "thread.new and msg.new of one's own, and nothing else"
    ids = [told.id for told in heard]
    assert ids[1] == ids[0] + 1, "the numbers tell nothing of what happens elsewhere"


# The terminal

WITH_TOKEN = [comer for comer in COMERS if comer not in ("nobody", "stale cookie", "browser")]
TERMINAL = sorted((face.name, operation.name) for operation in OPERATIONS for face in operation.commands)


@pytest.mark.parametrize("comer", WITH_TOKEN if IS_LONG else ["admin of 1", "agent of 0", "forger"], indirect=True)
def test_no_command_shows_anything_of_another_workspace(scene: Scene, comer: Comer, checks: list[int]):
    by_name = {operation.name: operation for operation in OPERATIONS}
    env = {"PALAVER_URL": scene.server.url, "PALAVER_TOKEN": comer.api.headers["authorization"].removeprefix("Bearer ")}
    wrong: list[Any] = []
    for command, name in TERMINAL:
        for world in foreign_worlds(scene, comer):
            args = [*command.split(" "), *_arguments(by_name[name], command, world)]
            result = CliRunner(env=env).invoke(main.palaver, ["--json", *args], input="own words")
            checks[0] += 1
            if seen := shown(scene, comer, result.output, *args):
                wrong.append((args, seen))
            if not comer.is_known and result.exit_code != 4:
                wrong.append((args, result.exit_code, result.output[:200]))
            if result.exit_code == 1:
                wrong.append((args, result.output[:300]))
    assert wrong == []


def _arguments(operation: Operation, command: str, world: World) -> list[str]:
    (face,) = [face for face in operation.commands if face.name == command]
    asked = given(operation, world)
    args: list[str] = []
    for name in (*face.takes, *([face.rest] if face.rest else ())):
        if name in asked:
            args.append(str(asked.pop(name)))
    fields = operation.request.model_fields
    for name, text in asked.items():
        if fields[name].is_required():
            args += [f"--{name.replace('_', '-')}", str(text)]
    return args


# And afterwards


def test_after_all_this_everything_is_where_it_was(scene: Scene):
    """What others tried to change or delete is still there, as it was."""
    for kind in ("admin of 0", "admin of 1", "admin of 2"):
        comer = scene.comers[kind]
        assert comer.home
        world = scene.worlds[comer.home]
        for path in ("/api/threads/{thread_id}", "/api/messages/{message_id}", "/api/notes/{note_id}", "/api/media/{media_id}",
                     "/api/chats/{chat_id}", "/api/characters/{character_id}", "/api/prompts/{prompt_id}",
                     "/api/templates/{template_id}", "/uploads/{name}", "/api/archive/{conversation_id}",
                     "/api/v1/agents/{agent}/sessions/{session}/messages"):  # fmt: skip
            filled, _ = in_path(path, world.things)
            answer = comer.api.get(filled)
            assert (path, answer.status_code) == (path, 200)
        message = comer.api.get(f"/api/messages/{world.things['message_id']}").json()
        assert message["reactions"]
        assert any(token["id"] == world.things["token_id"] for token in comer.api.get("/api/tokens").json())
    assert "Traceback" not in scene.server.said()


# Two worlds


def test_what_one_stores_changes_nothing_the_other_sees(scene: Scene):
    """Lists, searches and their scores are the same to the byte, whatever is stored elsewhere with the same words."""
    ours, theirs = scene.comers["admin of 1"], scene.comers["admin of 2"]
    common = word("common")

    def store(api: httpx.Client, times: int) -> None:
        thread = Thread(api, f"about {word()} {common}")
        for n in range(times):
            thread.post(f"{common} harbour {n} " + "boat " * (n % 7), author=None)
            api.post("/api/notes", json={"title": f"{common} {n}", "content": f"harbour {common} " * (n % 5 + 1)})

    def look() -> list[Any]:
        answers: list[Any] = []
        for door, need in ROUTES.items():
            if door.startswith("GET") and need == "read" and door != "GET /metrics" and "/wait" not in door:
                text = ask(ours, door, mine)[0].text
                text = re.sub(r"data [0-9a-f]{8}\b", "data", text)  # a fence's mark is new each time
                text = re.sub(r'"check":\{[^}]*\}', "", text)  # the background check goes on meanwhile
                # PostgreSQL's own housekeeping changes the size of our files.
                answers.append((door, re.sub(r'"storage_bytes":[0-9]+', "", text)))
        for path in ("/api/search", "/api/knowledge/search"):
            for query in (common, "harbour", f"{common} OR boat", f"harbour {common}"):
                params: dict[str, Any] = {
                    "q" if path == "/api/search" else "query": query,
                    "limit": 50,
                    "dedupe": False,
                }
                text = ours.api.get(path, params=params).text
                answers.append((path, query, re.sub(r'"session_id":"[^"]*"', "", text)))
        return answers

    assert ours.home
    mine = scene.worlds[ours.home]
    store(ours.api, 12)
    before = look()
    assert look() == before
    store(theirs.api, 60)
    assert look() == before
    assert value(mine, None, "query") == mine.said
