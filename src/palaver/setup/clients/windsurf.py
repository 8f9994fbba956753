"""Windsurf. Servers are in `~/.codeium/windsurf/mcp_config.json`. The address is called `serverUrl`."""

from __future__ import annotations

from palaver.setup.client import NAME, Client, Edit, Machine, Member, Options, Server


def is_installed(machine: Machine) -> bool:
    return (machine.home / ".codeium" / "windsurf").is_dir() or machine.has_program("windsurf")


def edits(machine: Machine, server: Server, options: Options) -> list[Edit]:
    entry = server.stdio() if server.use_stdio else {"serverUrl": server.url, **server.headers}
    path = machine.home / ".codeium" / "windsurf" / "mcp_config.json"
    return [Edit(path, "MCP server", (Member(("mcpServers", NAME), entry),))]


CLIENT = Client("windsurf", "Windsurf", is_installed, edits)
