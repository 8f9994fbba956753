"""Check a client: is palaver in its settings, does the server answer, and can the hooks run?

The handshake is a real one: `initialize` and `tools/list`, to the address or with the command in the client's own file.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from palaver.setup import files, jsonc, toml_text
from palaver.setup.changes import commands_of, explain, own_commands
from palaver.setup.client import Client, Edit, Found, Item, Machine, Member, Options, Server, found_server
from palaver.setup.json_lines import NoAnswer, exchange

HTTP_SECONDS = 5.0
STDIO_SECONDS = 30.0
PROTOCOL = "2025-06-18"


@dataclass
class State:
    """The result of a check."""

    client: Client
    status: str = "not installed"
    """not installed, not set up, set up, or connected."""

    server: str = ""
    version: str = ""
    tools: int = 0
    hooks: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool | None:
        if self.problems:
            return False
        return True if self.status == "connected" else None


def check(client: Client, machine: Machine, server: Server, version: str) -> State:
    state = State(client)
    if not client.is_installed(machine):
        return state
    state.status = "not set up"
    edits = client.edits(machine, server, Options())
    for edit in edits:
        try:
            _check_file(state, edit, version, machine.environ)
        except (jsonc.Malformed, OSError, UnicodeDecodeError) as problem:
            state.problems.append(explain(problem, edit.path) or str(problem))
    if state.hooks not in ("", "none"):
        state.problems += client.hook_problems(machine)
    if client.has_package(machine):
        state.status, state.hooks = "set up", "from the plugin or extension"
        if any(edit.what == "MCP server" and _entry(edit) for edit in edits):
            state.problems.append(
                "palaver is there twice: in the settings and as a plugin. Run: palaver setup --remove " + client.name
            )
    return state


def _check_file(state: State, edit: Edit, version: str, environ: Mapping[str, str]) -> None:
    members = [entry for entry in edit.entries if isinstance(entry, Member)]
    items = [entry for entry in edit.entries if isinstance(entry, Item)]
    values = _values(edit)
    for member in members:
        _check_server(state, values, member, version, environ)
    if items:
        _check_hooks(state, values, items)
    if edit.what == "hooks" and edit.text is not None:
        _check_plugin(state, edit)


def _values(edit: Edit) -> Any:
    content = files.read(edit.path)
    format = toml_text if edit.is_toml else jsonc
    return format.parse(content.decode("utf-8")) if content is not None and edit.entries else {}


def _entry(edit: Edit) -> Any:
    try:
        return _at(_values(edit), edit.entries[0].path)
    except (jsonc.Malformed, OSError, UnicodeDecodeError):
        return None


def _at(values: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def _check_server(state: State, values: Any, member: Member, version: str, environ: Mapping[str, str]) -> None:
    siblings = _at(values, member.path[:-1])
    for name, other in siblings.items() if isinstance(siblings, dict) else ():
        if name != member.path[-1] and ("palaver" in name.lower() or found_server(other).is_palaver):
            state.problems.append(
                f"'{name}' is a second palaver server in the same file ({found_server(other).says}). Remove one."
            )
    entry = _at(values, member.path)
    if entry is None:
        return
    found = found_server(entry)
    state.status, state.server = "set up", found.says
    variable = entry.get("bearer_token_env_var") if isinstance(entry, dict) else None
    headers = dict(found.headers)
    if isinstance(variable, str) and environ.get(variable):
        headers["Authorization"] = f"Bearer {environ[variable]}"
    try:
        greeting, tools = ask_http(found.url, headers) if found.url else ask_stdio(found)
    except HandshakeError as problem:
        state.problems.append(str(problem))
        return
    state.status, state.tools = "connected", len(tools)
    about = greeting.get("serverInfo") or {}
    state.version = str(about.get("version", ""))
    if about.get("name") != "palaver":
        state.problems.append(f"The server at {found.says} is not palaver, but '{about.get('name')}'.")
    elif state.version != version:
        state.problems.append(f"The server is version {state.version}, this command is {version}. Restart the server.")


def _check_hooks(state: State, values: Any, items: list[Item]) -> None:
    present, differ, repeat = 0, [], f"Run: palaver setup {state.client.name}"
    for item in items:
        commands = [command for _, command in own_commands(_at(values, item.path))]
        present += bool(commands)
        if len(commands) > 1:
            state.problems.append(f"The hook {item.path[-1]} runs palaver {len(commands)} times. {repeat}")
        for command in commands[:1]:
            program, expected = program_of(command), next(commands_of(item.value))
            if not os.access(program, os.X_OK):
                state.problems.append(f"The hook {item.path[-1]} runs {program}, which is not there. {repeat}")
            elif command.partition(" hook ")[2] != expected.partition(" hook ")[2]:
                differ.append(str(item.path[-1]))
    if differ:
        state.problems.append(f"Hooks with other arguments than expected: {', '.join(differ)}. {repeat}")
    state.hooks = f"{present} of {len(items)}" if present else "none"
    if 0 < present < len(items):
        state.problems.append(f"Only {present} of {len(items)} hooks are there. {repeat}")


def _check_plugin(state: State, edit: Edit) -> None:
    """Check a file that runs the hooks."""
    content = files.read(edit.path)
    state.hooks = "none" if content is None else "in a plugin"
    if content not in (None, (edit.text or "").encode()):
        state.problems.append(f"{edit.path} is not as expected. Run: palaver setup {state.client.name}")


def program_of(command: str) -> str:
    """The program that a hook runs: the word before `hook`."""
    words = shlex.split(command)
    return words[words.index("hook") - 1] if "hook" in words[1:] else words[0]


# The handshake


class HandshakeError(Exception):
    """The server does not answer as an MCP server does. The text says why."""


ABOUT = {
    "protocolVersion": PROTOCOL,
    "capabilities": {},
    "clientInfo": {"name": "palaver setup --check", "version": "1"},
}


def ask_http(url: str, headers: Mapping[str, str]) -> tuple[dict[str, Any], list[Any]]:
    """The answers to initialize and tools/list of a server at an address."""
    import httpx2

    sent = {"accept": "application/json, text/event-stream", "content-type": "application/json", **headers}
    try:
        with httpx2.Client(timeout=HTTP_SECONDS, trust_env=False, headers=sent) as client:

            def ask(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
                message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                answer = client.post(url, json=message)
                if answer.status_code in (401, 403):
                    raise HandshakeError("The server refuses the token. Run: palaver setup --url URL --token TOKEN")
                if answer.status_code != 200:
                    raise HandshakeError(
                        f"{url} answers with status {answer.status_code}. Another program may use this port."
                    )
                if session := answer.headers.get("mcp-session-id"):
                    client.headers["mcp-session-id"] = session
                return _result(_messages(answer.text), number)

            greeting = ask(1, "initialize", ABOUT)
            client.headers["mcp-protocol-version"] = str(greeting.get("protocolVersion", PROTOCOL))
            client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
            tools = ask(2, "tools/list", {}).get("tools", [])
            if "mcp-session-id" in client.headers:
                client.delete(url)
            return greeting, tools
    except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
        why = (
            "No server answers" if isinstance(problem, httpx2.ConnectError) else f"No answer ({type(problem).__name__})"
        )
        raise HandshakeError(f"{why}. Run: palaver serve, or: palaver service install") from None


def ask_stdio(found: Found) -> tuple[dict[str, Any], list[Any]]:
    """The answers to initialize and tools/list of a server that is started by a command."""
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ABOUT},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
    ]
    if not found.command:
        raise HandshakeError("The entry has neither an address nor a command.")
    try:
        heard = list(exchange(found.command, messages, STDIO_SECONDS, found.env).values())
    except NoAnswer as problem:
        raise HandshakeError(str(problem)) from None
    return _result(heard, 1), _result(heard, 2).get("tools", [])


def _messages(text: str) -> list[dict[str, Any]]:
    """The JSON-RPC messages in a body: one JSON object, or events."""
    return list(_read_messages(text))


def _read_messages(text: str) -> Iterator[dict[str, Any]]:
    lines = [line[5:] for line in text.splitlines() if line.startswith("data:")] or [text]
    for line in lines:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict):
            yield message


def _result(messages: list[dict[str, Any]], number: int) -> dict[str, Any]:
    answer = next((one for one in messages if one.get("id") == number), None)
    if answer is None or not isinstance(answer.get("result"), dict):
        raise HandshakeError("The answer is not from an MCP server. Another program may use this port.")
    return dict(answer["result"])
