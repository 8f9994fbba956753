"""Codex. Servers are in `~/.codex/config.toml`, hooks in `~/.codex/hooks.json`, skills in `~/.codex/skills`.

Codex runs a hook only after a person has trusted it in `/hooks`. Setup does not write that trust.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

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
    is_own_hook,
    skill,
)
from palaver.setup.json_lines import NoAnswer, exchange

EVENTS = {
    "session-start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "stop": "Stop",
    "pre-compact": "PreCompact",
    "session-end": "SessionEnd",
}
TRUST = "Type /hooks in Codex."
SECONDS = 10.0
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
        elif not server.is_remote:  # another machine does not know the folders of this one
            entry["env_http_headers"] = {"Palaver-Folder": "PWD"}
    made = [Edit(folder(machine) / "config.toml", "MCP server", (Member(("mcp_servers", NAME), entry),))]
    if options.with_hooks:
        hooks = grouped_hooks(
            EVENTS,
            lambda event: hook_command(server.command, event, "codex", server.data_options),
            lambda event: LONGEST_END if event == "session-end" else TIMEOUT,
        )
        made.append(Edit(folder(machine) / "hooks.json", "hooks", hooks))
    if options.with_skill:
        made.append(skill(folder(machine) / "skills"))
    return made


def hook_problems(machine: Machine) -> list[str]:
    """Ask Codex which of palaver's hooks are not trusted. An untrusted hook does not run, and Codex does not say so."""
    program = shutil.which("codex", path=machine.environ.get("PATH", ""))
    if not program:
        return []
    about = {"clientInfo": {"name": "palaver", "title": "palaver", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(machine.home)]}},
    ]
    try:
        answer = exchange([program, "app-server"], messages, SECONDS)[2]
        listed = [hook for place in answer["result"]["data"] for hook in place["hooks"]]
        own = [hook["trustStatus"] for hook in listed if is_own_hook(hook["command"])]
    except (NoAnswer, KeyError, TypeError):
        return []
    waiting = sum(status in ("untrusted", "modified") for status in own)
    return (
        [f"Codex does not run {waiting} of {len(own)} hooks, as they are not trusted yet. {TRUST}"] if waiting else []
    )


CLIENT = Client(
    "codex",
    "Codex",
    is_installed,
    edits,
    hook_advice=f"Codex runs new hooks only after you trust them. {TRUST}",
    hook_problems=hook_problems,
)
