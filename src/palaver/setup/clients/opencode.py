"""opencode. Servers are in `opencode.json` or `opencode.jsonc`, skills in `skills`, both in `~/.config/opencode`."""

from __future__ import annotations

from typing import Any

from palaver.setup.client import NAME, Client, Edit, Machine, Member, Options, Server, skill


def is_installed(machine: Machine) -> bool:
    return (machine.folder("XDG_CONFIG_HOME", ".config") / "opencode").is_dir() or machine.has_program("opencode")


def edits(machine: Machine, server: Server, options: Options) -> list[Edit]:
    folder = machine.folder("XDG_CONFIG_HOME", ".config") / "opencode"
    path = next((folder / name for name in ("opencode.jsonc", "opencode.json") if (folder / name).exists()), None)
    entry: dict[str, Any] = {"type": "remote", "url": server.url, **server.headers}
    if server.use_stdio:
        entry = {"type": "local", "command": [server.command, *server.arguments]}
        entry |= {"environment": server.environment} if server.token else {}
    made = [Edit(path or folder / "opencode.json", "MCP server", (Member(("mcp", NAME), entry),))]
    if options.with_skill:
        made.append(skill(folder / "skills"))
    return made


CLIENT = Client("opencode", "opencode", is_installed, edits)
