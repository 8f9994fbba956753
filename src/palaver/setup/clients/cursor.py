"""Cursor. Servers are in `~/.cursor/mcp.json`, hooks in `~/.cursor/hooks.json`, skills in `~/.cursor/skills`."""

from __future__ import annotations

from palaver.setup.client import (
    NAME,
    TIMEOUT,
    Client,
    Default,
    Edit,
    Item,
    Machine,
    Member,
    Options,
    Server,
    hook_command,
    skill,
)

EVENTS = {
    "session-start": "sessionStart",
    "prompt": "beforeSubmitPrompt",
    "stop": "stop",
    "pre-compact": "preCompact",
    "session-end": "sessionEnd",
}


def is_installed(machine: Machine) -> bool:
    return (
        (machine.home / ".cursor").is_dir()
        or (machine.applications / "Cursor").is_dir()
        or machine.has_program("cursor", "cursor-agent")
    )


def edits(machine: Machine, server: Server, options: Options) -> list[Edit]:
    folder = machine.home / ".cursor"
    entry = server.stdio() if server.use_stdio else {"url": server.url, **server.headers}
    made = [Edit(folder / "mcp.json", "MCP server", (Member(("mcpServers", NAME), entry),))]
    if options.with_hooks:
        hooks = tuple(
            Item(
                ("hooks", theirs),
                {"command": hook_command(server.command, event, "cursor", server.data_options), "timeout": TIMEOUT},
            )
            for event, theirs in EVENTS.items()
        )
        made.append(Edit(folder / "hooks.json", "hooks", (Default(("version",), 1), *hooks)))
    if options.with_skill:
        made.append(skill(folder / "skills"))
    return made


CLIENT = Client("cursor", "Cursor", is_installed, edits)
