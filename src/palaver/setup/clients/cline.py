"""Cline, in VS Code and on the command line. Servers are in `cline_mcp_settings.json`.

Without `type` Cline uses the legacy SSE transport.
"""

from __future__ import annotations

from pathlib import Path

from palaver.setup.client import NAME, Client, Edit, Machine, Member, Options, Server

EXTENSION = "saoudrizwan.claude-dev"


def folders(machine: Machine) -> list[Path]:
    """The folders that exist: of the extension and of the command line program."""
    places = [
        machine.applications / edition / "User" / "globalStorage" / EXTENSION
        for edition in ("Code", "Code - Insiders", "Cursor")
    ]
    places.append(machine.home / ".cline" / "data")
    return [place for place in places if place.is_dir()]


def is_installed(machine: Machine) -> bool:
    return bool(folders(machine)) or machine.has_program("cline")


def edits(machine: Machine, server: Server, options: Options) -> list[Edit]:
    entry = {"type": "streamableHttp", "url": server.url, **server.headers}
    entry = server.stdio(type="stdio") if server.use_stdio else entry
    return [
        Edit(place / "settings" / "cline_mcp_settings.json", "MCP server", (Member(("mcpServers", NAME), entry),))
        for place in folders(machine) or [machine.home / ".cline" / "data"]
    ]


CLIENT = Client("cline", "Cline", is_installed, edits)
