"""Claude Code. Servers are in `~/.claude.json`, hooks in `~/.claude/settings.json`, skills in `~/.claude/skills`."""

from __future__ import annotations

import json
from pathlib import Path

from palaver.setup.client import (
    NAME,
    TIMEOUT,
    Client,
    Default,
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

KEEP_SESSIONS = Default(("cleanupPeriodDays",), 3_650, is_least=True)
"""Claude Code deletes sessions after 30 days, unless this setting has another number."""


def folder(machine: Machine) -> Path:
    return machine.folder("CLAUDE_CONFIG_DIR", ".claude")


def is_installed(machine: Machine) -> bool:
    return folder(machine).is_dir() or (machine.home / ".claude.json").exists() or machine.has_program("claude")


def has_package(machine: Machine) -> bool:
    try:
        plugins = json.loads((folder(machine) / "settings.json").read_text("utf-8-sig")).get("enabledPlugins", {})
        return any(name.startswith("palaver@") and plugins[name] is True for name in plugins)
    except (OSError, ValueError, AttributeError, TypeError):
        return False


def edits(machine: Machine, server: Server, options: Options) -> list[Edit]:
    state = (folder(machine) if machine.environ.get("CLAUDE_CONFIG_DIR") else machine.home) / ".claude.json"
    entry = server.stdio(type="stdio") if server.use_stdio else {"type": "http", "url": server.url, **server.headers}
    made = [Edit(state, "MCP server", (Member(("mcpServers", NAME), entry),))]
    if options.with_hooks:
        hooks = grouped_hooks(
            EVENTS,
            lambda event: hook_command(server.command, event, "claude-code", server.data_options),
            lambda _: TIMEOUT,
        )
        made.append(Edit(folder(machine) / "settings.json", "hooks", hooks))
    if options.keep_history:
        made.append(Edit(folder(machine) / "settings.json", "sessions are kept", (KEEP_SESSIONS,)))
    if options.with_skill:
        made.append(skill(folder(machine) / "skills"))
    return made


CLIENT = Client("claude-code", "Claude Code", is_installed, edits, has_package=has_package)
