"""The command line on the data and through a server: the same questions, the same answers. And MCP over stdio."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.doors.test_cli import Terminal
from tests.helpers import Server, environment, free_port, palaver_command, start_server, word
from tests.mcp_clients import stdio_server

from palaver.doors.cli.serve import stdio_command
from palaver.doors.local.running_server import running_server
from palaver.operations import OPERATIONS
from palaver.settings import Settings, load


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_server(tmp_path_factory.mktemp("running"), PALAVER_RATE_LIMIT=1000) as server:
        yield server


class Way(Terminal):
    """One of the ways to the data: through the server's socket, through its URL, or on the files themselves."""

    def __init__(self, running: Server, through_server: bool, alone: bool = False) -> None:
        super().__init__(running.home)
        self.env = {"PALAVER_URL": running.url} if through_server else {}
        if alone:  # the server has the same database under another name, so it refuses the process
            self.env["PALAVER_DATABASE_URL"] = f"sqlite:///{running.home}"

    def run(self, *args: str, input: str | bytes | None = None, **env: str) -> Result:
        return super().run(*args, input=input, **self.env, **env)


@pytest.fixture(params=["here", "there", "alone"])
def way(request: pytest.FixtureRequest, running: Server) -> Way:
    return Way(running, request.param == "there", request.param == "alone")


@pytest.fixture
def here(running: Server) -> Way:
    return Way(running, False)


@pytest.fixture
def there(running: Server) -> Way:
    return Way(running, True)


def test_a_whole_conversation_works_either_way(way: Way):
    topic, marker = word("topic "), word()
    thread = way.json("thread", "create", topic)
    assert way.json("thread", "create", topic)["id"] == thread["id"]
    message = way.json("post", topic, "hello", marker, "--author", "ann")
    assert (message["seq"], message["author"], message["content"]) == (1, "ann", f"hello {marker}")
    assert way.json("message", "edit", message["id"], "good", "bye", marker)["edit_version"] == 1
    assert way.json("message", "history", message["id"])["edits"][0]["old_content"] == f"hello {marker}"
    way.ok("react", message["id"], "a/b ?&#", "--agent", "bob")
    assert [r["reaction"] for r in way.json("reactions", message["id"])] == ["a/b ?&#"]
    assert way.json("unreact", message["id"], "a/b ?&#", "--agent-id", "bob")["removed"] is True
    assert way.json("search", marker)["results"][0]["message_id"] == message["id"]
    assert way.json("wait", topic, "--timeout-ms", "0")["messages"][0]["id"] == message["id"]
    assert way.json("thread", "close", topic, "--summary", "done")["status"] == "closed"
    assert way.run("post", topic, "too late").exit_code == 1
    assert way.json("message", "delete", message["id"])["deleted"] is True
    assert way.json("thread", "delete", topic)["ok"] is True
    assert way.run("thread", "show", topic).exit_code == 3


def test_templates_and_agents_work_either_way(way: Way):
    id, slug = word("t-"), word("agent-")
    assert way.json("template", "create", id, "A name", "--default-metadata", '{"a": 1}')["default_metadata"] == {
        "a": 1
    }
    assert id in way.ok("template", "list")
    assert way.json("template", "delete", id) == {"ok": True}
    made = way.json("agent", "create", slug, "--capabilities", "code", "--capabilities", "review")
    assert (made["slug"], made["name"]) == (slug, slug)
    assert way.json("agent", "create", slug) == {**made, "token": None}  # that one, and not another of nearly that name
    assert way.json("agent", "show", slug)["capabilities"] == ["code", "review"]
    assert slug in way.ok("agents")


@pytest.fixture
def alone(running: Server) -> Way:
    return Way(running, False, True)


def test_all_ways_print_the_same_to_the_letter(here: Way, there: Way, alone: Way):
    topic, marker = word("topic "), word()
    here.ok("thread", "create", topic)
    message = here.json("post", topic, f"{marker} <i>&amp;</i>", "--mentions", "ann", "--metadata", '{"x": null}')
    asked = [
        ("thread", "list", "--limit", "1"),
        ("thread", "show", topic),
        ("thread", "read", topic, "--newest", "--limit", "5"),
        ("thread", "export", topic),
        ("search", marker, "--thread", topic),
        ("message", "show", message["id"]),
        ("message", "history", message["id"]),
        ("reactions", message["id"]),
        ("agents",),
        ("template", "list"),
        ("template", "show", "code-review"),
        ("wait", topic, "--after-seq", "0", "--timeout-ms", "0", "--for-agent", "nobody"),
    ]
    for args in asked:
        for format in ("table", "json"):
            said = {
                re.sub(r'(reply_token"?: ).*', r"\1", way.ok(*args, "--format", format)) for way in (here, there, alone)
            }
            assert len(said) == 1, args


@pytest.mark.parametrize(
    "args, code",
    [
        (("thread", "show", "nope"), 3),
        (("thread", "show", "no/pe?"), 3),
        (("post", "nope", "x"), 3),
        (("message", "show", "nope"), 3),
        (("search", " "), 2),
        (("thread", "create", "x" * 600), 2),
        (("template", "create", "not an id", "name"), 2),
        (("template", "create", "code-review", "name"), 1),
        (("thread", "list", "--before", "nonsense"), 2),
    ],
)
def test_failures_end_alike_either_way(way: Way, args: tuple[str, ...], code: int):
    result = way.run(*args)
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("palaver: ")
    assert result.stderr.count("\n") == 1


def test_a_token_is_sent_to_the_server(here: Way, there: Way):
    token = here.ok("token", "create", "--human", "ann", "--scope", "read").strip()
    assert there.run("status", PALAVER_TOKEN=token).exit_code == 0
    assert there.run("thread", "create", word(), PALAVER_TOKEN=token).exit_code == 4
    assert there.run("status", PALAVER_TOKEN="plv_wrong").exit_code == 4


def test_something_else_that_answers_is_not_taken_for_palaver(there: Way, running: Server):
    result = there.run("status", "--url", f"{running.url}/docs?")
    assert result.exit_code in (3, 5)
    assert result.stderr.startswith("palaver: ")


def test_every_command_can_be_asked_of_a_server():
    without = [operation.name for operation in OPERATIONS if operation.commands and not operation.routes]
    assert without == []


@pytest.mark.parametrize("topic", ["plans/2026", "plans/2026/messages", "..", "what? 50%"])
def test_a_topic_that_looks_like_a_path_is_a_topic(way: Way, topic: str):
    way.json("thread", "create", "plans/2026")
    thread = way.json("thread", "create", topic)
    assert way.json("thread", "show", topic)["id"] == thread["id"]
    assert way.json("thread", "read", topic) == []


def test_events_are_followed_either_way(way: Way, here: Way):
    topic = word("topic ")
    thread = here.json("thread", "create", topic)
    last = here.json("status")["last_event_id"]
    message = here.json("post", topic, "one\nevent", "--author", "ann")
    (line,) = way.ok("events", "--thread", topic, "--after", str(last), "--count", "1").splitlines()
    assert line == f"{last + 1}  msg.new       {thread['id']}  ann: one event"
    (line,) = way.ok("events", "--after", str(last), "--count", "1", "--json").splitlines()
    assert json.loads(line) == {"id": last + 1, "type": "msg.new", "data": message}
    assert way.run("events", "--thread", "nope").exit_code == 3


def test_the_banner_says_where_to_find_and_how_to_connect(running: Server):
    said = running.said()
    for line in (
        f"Console      {running.url}/\n",
        f"MCP          {running.url}/mcp?tools=core ",
        f'claude mcp add --scope user --transport http palaver "{running.url}/mcp?tools=core"\n',
        f'codex mcp add palaver --url "{running.url}/mcp?tools=core"\n',
        f'code --add-mcp \'{{"name": "palaver", "type": "http", "url": "{running.url}/mcp?tools=core"}}\'\n',
        f'{{"mcpServers": {{"palaver": {{"url": "{running.url}/mcp?tools=core"}}}}}}\n',
    ):
        assert line in said
    assert "\x1b" not in said


def test_a_port_that_is_taken_is_exit_code_5(running: Server, tmp_path: Path):
    result = Terminal(tmp_path).run("serve", "--port", str(running.port))
    assert result.exit_code == 5
    assert "Choose another port with --port" in result.stderr


def test_an_open_door_to_the_world_is_refused(tmp_path: Path):
    for more in ((), ("--auth", "open")):
        result = Terminal(tmp_path).run("serve", "--host", "0.0.0.0", "--port", str(free_port()), *more)
        assert result.exit_code == 2
    assert Terminal(tmp_path).run("serve", "--auth", "maybe").exit_code == 2


# MCP over stdio


def test_the_stdio_line_of_the_banner_works_as_printed(running: Server, here: Way, tmp_path: Path):
    """Started elsewhere and without PATH or PALAVER_HOME, as a desktop application does."""
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    (line,) = re.findall("^  stdio +(.+)$", running.said(), re.MULTILINE)
    command, *args = shlex.split(line)
    thread = here.json("thread", "create", word("topic "))
    env = {"PATH": "", "PYTHONPATH": environment(running.home)["PYTHONPATH"]}
    parameters = StdioServerParameters(command=command, args=args, env=env, cwd=tmp_path)

    async def talk() -> None:
        async with Client(stdio_client(parameters)) as client:
            found: Any = await client.call_tool("thread_get", {"thread_id": thread["id"]})
            assert found.structured_content["topic"] == thread["topic"]

    asyncio.run(talk())


def test_the_stdio_line_names_the_installed_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    script = tmp_path / "palaver"
    script.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["./palaver", "serve"])
    assert stdio_command(Settings()) == [str(script), "mcp"]
    assert stdio_command(Settings(home=Path("data"))) == [str(script), "mcp", "--home", str(tmp_path / "data")]


def address_over_stdio(home: Path, **env: str) -> tuple[str, str]:
    """The address that bus_get_config names, and the one that a result's link begins with."""
    from mcp.client.client import Client
    from mcp.client.stdio import stdio_client

    parameters = stdio_server(environment(home, **env))

    async def ask() -> tuple[str, str]:
        async with Client(stdio_client(parameters)) as client:
            config: Any = await client.call_tool("bus_get_config", {})
            await client.call_tool("notes_create", {"title": "Boats", "content": "the harbour is full"})
            found: Any = await client.call_tool("notes_search", {"query": "harbour", "verbose": True})
            link = found.structured_content["results"][0]["link"]
            return config.structured_content["endpoint"], link.partition("/#/")[0]

    return asyncio.run(ask())


def test_stdio_names_the_address_of_the_server_that_runs_on_the_same_data(tmp_path: Path):
    settings = "http://127.0.0.1:4"
    assert address_over_stdio(tmp_path, PALAVER_PORT="4") == (settings, settings)
    with start_server(tmp_path) as first:
        assert address_over_stdio(tmp_path, PALAVER_PORT="4") == (first.url, first.url)
        assert address_over_stdio(tmp_path, PALAVER_PUBLIC_URL="https://a.example")[0] == "https://a.example"
        with start_server(tmp_path) as second:
            assert address_over_stdio(tmp_path)[0] == second.url
    assert not (tmp_path / "server.json").exists()
    assert address_over_stdio(tmp_path, PALAVER_PORT="4")[0] == settings


def test_the_address_of_a_server_that_was_killed_is_ignored(tmp_path: Path):
    with start_server(tmp_path) as server:
        other_data = environment(tmp_path, PALAVER_DATABASE_URL=f"sqlite:///{tmp_path / 'other'}")
        server.process.kill()
        server.process.wait(20)
    assert json.loads((tmp_path / "server.json").read_text())["port"] == server.port
    here = load({"home": tmp_path})
    assert running_server(here) is None
    with start_server(tmp_path) as server:
        assert running_server(here) == server.url
        assert running_server(load(environ=other_data)) is None


def test_an_mcp_client_talks_to_palaver_over_stdio_beside_a_running_server(running: Server, here: Way):
    from mcp.client.client import Client
    from mcp.client.stdio import stdio_client

    topic = word("topic ")
    command = stdio_server(environment(running.home))

    async def talk() -> None:
        async with Client(stdio_client(command)) as client:
            assert client.server_info is not None
            assert client.server_info.name == "palaver"
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert {"bus_connect", "msg_post", "msg_wait", "msg_search"} <= tools
            connected = await client.call_tool("bus_connect", {"thread_name": topic, "ide": "tests", "model": "m"})
            joined: Any = connected.structured_content
            posted: Any = await client.call_tool(
                "msg_post", {"thread_id": joined["thread"]["thread_id"], "content": "from stdio"}
            )
            assert posted.structured_content["author"] == joined["agent"]["name"]

    asyncio.run(talk())
    assert [message["content"] for message in here.json("thread", "read", topic)] == ["from stdio"]


def test_nothing_but_the_protocol_stands_on_stdout_and_the_end_of_input_is_the_end(tmp_path: Path):
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    asked: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
    ]
    asked += [{"id": 2, "method": "tools/list", "params": {}}]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in asked)
    done = subprocess.run(
        [sys.executable, "-m", "palaver", "mcp", "--toolsets", "bus", "--tool-names", "dotted"],
        env=environment(tmp_path),
        input=lines,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2]


def test_stdio_needs_a_token_where_tokens_are_asked_for(tmp_path: Path):
    done = subprocess.run(
        palaver_command("mcp"),
        env=environment(tmp_path, PALAVER_AUTH="token"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("palaver: A token is required")


# Speed. Not measured here (`make bench ARGS=start` does), but what makes a command slow is not imported.

SLOW = {"asyncio", "pydantic", "httpx2", "orjson", "apsw", "palaver.settings", "palaver.app", "palaver.operations"}
IMPORTED = re.compile(r"^import time: .*\| +(\S+)$", re.MULTILINE)


def imports_of(home: Path, *args: str) -> set[str]:
    """The modules that a command imports, in a process of its own."""
    command = [sys.executable, "-X", "importtime", "-m", "palaver", *args]
    done = subprocess.run(command, env=environment(home), cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(IMPORTED.findall(done.stderr))


@pytest.mark.examples(3)
@pytest.mark.parametrize(
    "args",
    [
        "--help",
        "thread list",
        "post plans hello",
        "search hello",
        "search hello --thread plans",
        "status",
        "wait plans --timeout-ms 0",
    ],
)
def test_beside_a_server_a_command_imports_nothing_that_is_slow(running: Server, here: Way, args: str):
    here.ok("thread", "create", "plans")
    assert imports_of(running.home, *args.split()) & SLOW == set()


def test_without_a_server_a_command_imports_only_its_own_operation(tmp_path: Path):
    assert "palaver.operations.bus.threads" in imports_of(tmp_path, "thread", "list")
    found = imports_of(tmp_path, "thread", "create", "plans")
    others = {"palaver.operations.table", "palaver.search", "palaver.importers", "mcp", "httpx2", "starlette", "numpy"}
    assert found & others == set()


def test_a_command_with_a_setting_of_its_own_opens_the_data_itself(running: Server, here: Way):
    secret = "sk-" + "ant-api03-" + "a1B2c3D4" * 11
    topic = word("topic ")
    here.ok("thread", "create", topic)
    assert here.run("post", topic, secret).exit_code == 2
    assert here.run("post", topic, secret, PALAVER_CONTENT_FILTER="off").exit_code == 0


def test_beside_a_server_the_files_give_full_access_and_a_token_its_own(tmp_path: Path):
    with start_server(tmp_path, PALAVER_AUTH="token") as server:
        here = Way(server, False)
        here.ok("thread", "create", "plans")
        token = here.ok("token", "create", "--human", "ann", "--scope", "read").strip()
        assert here.run("thread", "list", PALAVER_TOKEN=token).exit_code == 0
        assert here.run("thread", "create", word(), PALAVER_TOKEN=token).exit_code == 4
        assert here.run("thread", "list", PALAVER_TOKEN="plv_wrong").exit_code == 4
        here.ok("workspace", "create", "team")
        here.ok("thread", "create", "ours", "--workspace", "team")
        assert [one["topic"] for one in here.json("thread", "list", "--workspace", "team")["threads"]] == ["ours"]
        assert here.run("thread", "list", "--workspace", "nope").exit_code == 3
