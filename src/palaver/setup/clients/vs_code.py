"""VS Code. Servers are in `mcp.json` of the user profile, under `servers`."""

from __future__ import annotations

from pathlib import Path

from palaver.setup.client import NAME, Client, Edit, Machine, Member, Options, Server

EDITIONS = ("Code", "Code - Insiders")


def folders(machine: Machine) -> list[Path]:
    """The user profiles of the editions that are installed, or that of the usual one."""
    found = [
        machine.applications / edition / "User" for edition in EDITIONS if (machine.applications / edition).is_dir()
    ]
    return found or [machine.applications / "Code" / "User"]


def is_installed(machine: Machine) -> bool:
    return any((machine.applications / edition).is_dir() for edition in EDITIONS) or machine.has_program("code")


def edits(machine: Machine, server: Server, options: Options) -> list[Edit]:
    entry = server.stdio(type="stdio") if server.use_stdio else {"type": "http", "url": server.url, **server.headers}
    return [Edit(path / "mcp.json", "MCP server", (Member(("servers", NAME), entry),)) for path in folders(machine)]


CLIENT = Client("vs-code", "VS Code", is_installed, edits)
