"""Gemini CLI. Servers and hooks are in `~/.gemini/settings.json`, skills in `~/.gemini/skills`."""

from __future__ import annotations

from palaver.setup.client import (
    NAME,
    TIMEOUT,
    Client,
    Edit,
    Machine,
    Member,
    Options,
    Server,
    grouped_hooks,
    hook_command,
    skill,
)

EVENTS = {
    "session-start": "SessionStart",
    "prompt": "BeforeAgent",
    "stop": "AfterAgent",
    "pre-compact": "PreCompress",
    "session-end": "SessionEnd",
}


def is_installed(machine: Machine) -> bool:
    return (machine.home / ".gemini").is_dir() or machine.has_program("gemini")


def has_package(machine: Machine) -> bool:
    return (machine.home / ".gemini" / "extensions" / "palaver").is_dir()


def edits(machine: Machine, server: Server, options: Options) -> list[Edit]:
    folder = machine.home / ".gemini"
    entry = server.stdio() if server.use_stdio else {"url": server.url, "type": "http", **server.headers}
    made = [Edit(folder / "settings.json", "MCP server", (Member(("mcpServers", NAME), entry),))]
    if options.with_hooks:
        hooks = grouped_hooks(
            EVENTS,
            lambda event: hook_command(server.command, event, "gemini-cli", server.data_options),
            lambda _: TIMEOUT * 1000,  # milliseconds here
        )
        made.append(Edit(folder / "settings.json", "hooks", hooks))
    if options.with_skill:
        made.append(skill(folder / "skills"))
    return made


CLIENT = Client("gemini-cli", "Gemini CLI", is_installed, edits, has_package=has_package)
