"""Check a client: is palaver in its settings, does the server answer, can the hooks run, and are sessions recorded?

The handshake is a real one: `initialize` and `tools/list`, to the address or with the command in the client's own file.
It does not use the MCP SDK, which takes two seconds of processor time to import.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

from palaver import child_process
from palaver.settings import LOOPBACK
from palaver.setup import files
from palaver.setup.changes import FILE_PROBLEMS, explain, format_of, own_hooks
from palaver.setup.clients import TRUST, WAIT, ClientProgram, Machine, Options, Server, SettingsEntry, is_own_hook
from palaver.setup.jsonc import at

HTTP_SECONDS = 5.0
STDIO_SECONDS = 30.0
CODEX_SECONDS = 10.0
RECORD_SECONDS = 60.0
SEARCH_SECONDS = 10.0
PROTOCOL = "2025-06-18"


@dataclass
class State:
    """The result of a check."""

    client: ClientProgram
    status: str = "not installed"
    """not installed, not set up, set up, or connected."""

    server: str = ""
    version: str = ""
    tools: int = 0
    hooks: str = ""
    wakes: bool = False
    """A message to its idle agent begins a turn."""

    problems: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool | None:
        if self.problems:
            return False
        return True if self.status == "connected" else None


@dataclass(frozen=True)
class NamedServer:
    """The server that a client's settings name: an address, or a command."""

    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def says(self) -> str:
        return self.url or shlex.join(self.command)

    @property
    def is_palaver(self) -> bool:
        """Whether it looks like a palaver server, whatever its name is."""
        if self.command:
            return Path(self.command[0]).name in ("palaver", "palaver-bus") or "palaver-bus" in self.command
        place = urlsplit(self.url)
        if place.hostname not in LOOPBACK or place.path.rstrip("/") not in ("/mcp", "/sse"):
            return False
        return ":39765" in place.netloc or bool(re.search(r"\b(tools|agent|project)=", place.query))


def found_server(entry: Any, environ: Mapping[str, str]) -> NamedServer:
    """Read an entry in the usual form, whichever of its names a client has for the address."""
    if not isinstance(entry, dict):
        return NamedServer()

    def first(kind: type, *keys: str) -> Any:
        return next((entry[key] for key in keys if isinstance(entry.get(key), kind)), kind())

    url, headers = first(str, *files.URLS), first(dict, "headers", "http_headers")
    if token := environ.get(first(str, "bearer_token_env_var")):
        headers = headers | {"Authorization": f"Bearer {token}"}
    program, env = entry.get("command") or [], first(dict, "env", "environment")
    if isinstance(program, dict):  # older versions of Zed
        entry, program = program, program.get("path", "")
    command = [program, *(entry.get("args") or [])] if isinstance(program, str) else program
    return NamedServer(url, headers, tuple(map(str, command)) if not url else (), env)


def check(client: ClientProgram, machine: Machine, server: Server, version: str) -> State:
    state = State(client)
    if not client.is_installed(machine):
        return state
    state.status = "not set up"
    for edit in client.edits(machine, server, Options()):
        try:
            content = files.read(edit.path)
            if edit.text is None:
                values = format_of(edit.path).parse((content or b"").decode("utf-8"))
                if edit.what == "MCP server":
                    _check_server(state, values, edit.entries[0], machine.environ, version)
                else:
                    _check_hooks(
                        state, values, [entry for entry in edit.entries if entry.kind == "hook" and entry.value]
                    )
            elif edit.what == "hooks":
                state.hooks = "none" if content is None else "in a plugin"
                state.wakes = b"WAKES = true" in (content or b"")
                usual = (content or b"").replace(b"ASKS_PERMISSION = true", b"ASKS_PERMISSION = false")
                if content and usual.replace(b"WAKES = false", b"WAKES = true") != (edit.text or "").encode():
                    state.problems.append(f"{edit.path} is not as expected. Run: palaver setup {client.name}")
        except FILE_PROBLEMS as problem:
            state.problems.append(explain(problem, edit.path))
    if client.name == "codex" and state.hooks not in ("", "none"):
        untrusted = list(_untrusted_hooks(machine))
        state.problems += untrusted
        state.wakes &= not untrusted
    if client.has_package(machine):
        if state.status != "not set up":
            state.problems.append(
                "palaver is there twice: in the settings and as a plugin. Run: palaver setup --remove " + client.name
            )
        state.status, state.hooks = "set up", "from the plugin or extension"
        state.wakes = bool(client.wakes)
    return state


def _check_server(state: State, values: Any, expected: SettingsEntry, environ: Mapping[str, str], version: str) -> None:
    *place, own = expected.path
    servers = at(values, place)
    for name, entry in servers.items() if isinstance(servers, dict) else ():
        found = found_server(entry, environ)
        if name != own and ("palaver" in name.lower() or found.is_palaver):
            state.problems.append(f"'{name}' is a second palaver server in the same file ({found.says}). Remove one.")
    if (entry := at(values, expected.path)) is None:
        return
    found = found_server(entry, environ)
    state.status, state.server = "set up", found.says
    try:
        greeting = greet(found)
    except NoAnswer as problem:
        state.problems.append(str(problem))
        return
    state.status, state.version, state.tools = "connected", greeting.version, greeting.tools
    if greeting.name != "palaver":
        state.problems.append(f"The server at {found.says} is not palaver, but '{greeting.name}'.")
    elif greeting.version != version:
        state.problems.append(greeting.says_other_version(version))


def _check_hooks(state: State, values: Any, expected: list[SettingsEntry]) -> None:
    present, differ, repeat = 0, [], f"Run: palaver setup {state.client.name}"
    for entry in expected:
        event = entry.path[-1]
        found = [command for _, command in own_hooks(at(values, entry.path))]
        commands = [command for command in found if f" hook {WAIT} " not in command]
        state.wakes |= commands != found
        present += bool(commands)
        if len(commands) > 1:
            state.problems.append(f"The hook {event} runs palaver {len(commands)} times. {repeat}")
        for command in commands[:1]:
            words = shlex.split(command)
            program = words[words.index("hook") - 1] if "hook" in words[1:] else words[0]
            _, wanted = own_hooks([entry.value])[0]
            if not os.access(program, os.X_OK):
                state.problems.append(f"The hook {event} runs {program}, which is not there. {repeat}")
            elif command.partition(" hook ")[2] != wanted.partition(" hook ")[2]:
                differ.append(event)
    if differ:
        state.problems.append(f"Hooks with other arguments than expected: {', '.join(differ)}. {repeat}")
    state.hooks = f"{present} of {len(expected)}" if present else "none"
    if 0 < present < len(expected):
        state.problems.append(f"Only {present} of {len(expected)} hooks are there. {repeat}")


def _untrusted_hooks(machine: Machine) -> Iterator[str]:
    """Ask Codex which of palaver's hooks are not trusted. An untrusted hook does not run, and Codex does not say so."""
    if not (program := machine.program("codex")):
        return
    about = {"clientInfo": {"name": "palaver", "title": "palaver", "version": "1"}}
    try:
        with _started([program, "app-server"], CODEX_SECONDS) as ask:
            ask({"id": 1, "method": "initialize", "params": about})
            ask({"method": "initialized"})
            answer = ask({"id": 2, "method": "hooks/list", "params": {"cwds": [str(machine.home)]}})
        listed = [hook for place in answer["result"]["data"] for hook in place["hooks"]]
        own = [hook["trustStatus"] for hook in listed if is_own_hook(hook)]
    except (NoAnswer, KeyError, TypeError):
        return
    if waiting := sum(status in ("untrusted", "modified") for status in own):
        yield f"Codex does not run {waiting} of {len(own)} hooks, as they are not trusted yet. {TRUST}"


# The handshake

Message = dict[str, Any]
Ask = Callable[[Message], Message]
"""Send a JSON-RPC message, and wait for the answer if the message has an id."""


class NoAnswer(Exception):
    """The server does not answer as an MCP server does. The text says why."""


@dataclass(frozen=True)
class Greeting:
    """What a server says about itself."""

    name: str
    version: str
    tools: int

    def says_other_version(self, version: str) -> str:
        return f"The server is version {self.version}, this command is {version}. Restart the server."


def greet(found: NamedServer) -> Greeting:
    if not (found.url or found.command):
        raise NoAnswer("The entry has neither an address nor a command.")
    about = {"name": "palaver setup --check", "version": "1"}
    params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": about}
    with _reached(found.url, found.headers) if found.url else _started(found.command, STDIO_SECONDS, found.env) as ask:
        answers = [ask({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})]
        ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
        answers.append(ask({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}))
    if not all(isinstance(answer.get("result"), dict) for answer in answers):
        raise NoAnswer("The answer is not from an MCP server. Another program may use this port.")
    server = answers[0]["result"].get("serverInfo") or {}
    return Greeting(str(server.get("name")), str(server.get("version", "")), len(answers[1]["result"].get("tools", [])))


@contextmanager
def _reached(url: str, headers: Mapping[str, str]) -> Iterator[Ask]:
    """Talk with a server at an address."""
    import httpx2

    def ask(message: Message) -> Message:
        answer = client.post(url, json=message)
        if "id" not in message:
            return {}
        if answer.status_code in (401, 403):
            raise NoAnswer("The server refuses the token. Run: palaver setup --url URL --token TOKEN")
        if answer.status_code != 200:
            raise NoAnswer(f"{url} answers with status {answer.status_code}. Another program may use this port.")
        if session := answer.headers.get("mcp-session-id"):
            client.headers["mcp-session-id"] = session
        events = [line[5:] for line in answer.text.splitlines() if line.startswith("data:")]
        heard = _answer_among(events or [answer.text], message["id"])
        if isinstance(result := heard.get("result"), dict) and "protocolVersion" in result:
            client.headers["mcp-protocol-version"] = str(result["protocolVersion"])
        return heard

    sent = {"accept": "application/json, text/event-stream", "content-type": "application/json", **headers}
    try:
        with httpx2.Client(timeout=HTTP_SECONDS, trust_env=False, headers=sent) as client:
            yield ask
            if "mcp-session-id" in client.headers:
                client.delete(url)
    except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
        is_closed = isinstance(problem, httpx2.ConnectError)
        why = "No server answers" if is_closed else f"No answer ({type(problem).__name__})"
        raise NoAnswer(f"{why}. Run: palaver serve, or: palaver service install") from None


@contextmanager
def _started(command: Sequence[str], seconds: float, env: Mapping[str, str] | None = None) -> Iterator[Ask]:
    """Talk with a program over its standard input and output, one message a line."""
    try:
        process = subprocess.Popen(
            command,
            env={**child_process.clean_environment(), **(env or {})},
            cwd=os.path.expanduser("~"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError as problem:
        raise NoAnswer(f"{command[0]} cannot be started: {problem.strerror}.") from None
    assert process.stdin
    assert process.stdout
    given, said = process.stdin, process.stdout

    def ask(message: Message) -> Message:
        given.write(json.dumps(message).encode() + b"\n")
        given.flush()
        answer = _answer_among(said, message["id"]) if "id" in message else {"id": None}
        if not answer:
            raise NoAnswer(f"{command[0]} ends without an answer.")
        return answer

    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield ask
    except BrokenPipeError:
        raise NoAnswer(f"{command[0]} ends without an answer.") from None
    finally:
        timer.cancel()
        process.kill()
        process.communicate()


def _answer_among(texts: Iterable[str | bytes], number: int) -> Message:
    """The answer with this id. {} if there is none."""
    for text in texts:
        try:
            message = json.loads(text)
        except ValueError:
            continue
        if isinstance(message, dict) and message.get("id") == number:
            return message
    return {}


# Recording


def probe_recording(home: Path, connection: Mapping[str, str], url: str, token: str) -> str:
    """Why sessions are not recorded; "" if a probe session was recorded as the hooks do, found and deleted.

    `connection` has the url and token that setup or the environment name. Without it, the data of this machine is used.
    """
    session, word = str(uuid4()), f"probe{uuid4().hex}"
    typed = {"role": "user", "content": f"palaver setup --check {word}"}
    facts = {"type": "user", "sessionId": session, "uuid": str(uuid4()), "timestamp": datetime.now(UTC).isoformat()}
    env = child_process.own_environment() | {"PALAVER_HOME": str(home.absolute())}
    env |= {f"PALAVER_{name.upper()}": value for name, value in connection.items() if value}
    with TemporaryDirectory(prefix="palaver-check-") as folder:
        file = Path(folder) / f"{session}.jsonl"
        file.write_text(json.dumps(facts | {"message": typed}) + "\n", "utf-8")
        command = child_process.python("-m", "palaver", "watch", "--once", "--quiet", str(file))
        try:
            done = subprocess.run(
                command,
                env=env,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=RECORD_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"Recording a session took longer than {RECORD_SECONDS:.0f} seconds."
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"'palaver watch' ended with {done.returncode}."]
        return said[-1].removeprefix("palaver: ")
    return _find_and_delete(session, word, url, token)


def _find_and_delete(session: str, word: str, url: str, token: str) -> str:
    import httpx2

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    is_here = urlsplit(url).hostname in LOOPBACK
    try:
        with httpx2.Client(base_url=url, timeout=SEARCH_SECONDS, trust_env=not is_here, headers=headers) as client:
            answer = client.post("/api/v1/conversations/search/all", json={"query": word})
            if answer.status_code != 200:
                return f"A session was recorded, but {url} refuses to search for it (status {answer.status_code})."
            hits = answer.json()["hits"]
            if not hits:
                return f"A session was recorded, but not on the server at {url}, which does not find it."
            answer = client.delete(f"/api/v1/agents/{hits[0]['agent']}/sessions/{quote(session)}")
            return "" if answer.status_code == 200 else f"The probe session {session} could not be deleted at {url}."
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError, TypeError):
        return f"No palaver server answers at {url}."
