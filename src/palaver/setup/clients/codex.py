"""Codex. Servers are in `~/.codex/config.toml`, hooks in `~/.codex/hooks.json`, skills in `~/.codex/skills`.

Codex runs a hook only after a person has trusted it in `/hooks`. Setup does not write that trust.
"""

from __future__ import annotations

from pathlib import Path

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
    "prompt": "UserPromptSubmit",
    "stop": "Stop",
    "pre-compact": "PreCompact",
    "session-end": "SessionEnd",
}
LONGEST_END = 3
"""Codex gives a SessionEnd hook at most 3 seconds, and prints a warning at each start if the file asks for more."""


def folder(machine: Machine) -> Path:
    return machine.folder("CODEX_HOME", ".codex")


def is_installed(machine: Machine) -> bool:
    return folder(machine).is_dir() or machine.has_program("codex")


def edits(machine: Machine, server: Server, options: Options) -> list[Edit]:
    if server.use_stdio:
        entry = server.stdio()
    else:
        entry = {"url": server.url}
        if server.token:
            entry["http_headers"] = {"Authorization": f"Bearer {server.token}"}
    made = [Edit(folder(machine) / "config.toml", "MCP server", (Member(("mcp_servers", NAME), entry),))]
    if options.with_hooks:
        hooks = grouped_hooks(
            EVENTS,
            lambda event: hook_command(server.command, event, "codex"),
            lambda event: LONGEST_END if event == "session-end" else TIMEOUT,
        )
        made.append(Edit(folder(machine) / "hooks.json", "hooks", hooks))
    if options.with_skill:
        made.append(skill(folder(machine) / "skills"))
    return made


CLIENT = Client(
    "codex",
    "Codex",
    is_installed,
    edits,
    hook_advice="Codex runs new hooks only after you trust them: type /hooks in Codex.",
)
