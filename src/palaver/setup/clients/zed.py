"""Zed. Servers are in `settings.json`, under `context_servers`."""

from __future__ import annotations

from palaver.setup.client import NAME, Client, Edit, Machine, Member, Options, Server


def is_installed(machine: Machine) -> bool:
    return (machine.folder("XDG_CONFIG_HOME", ".config") / "zed").is_dir() or machine.has_program("zed", "zeditor")


def edits(machine: Machine, server: Server, options: Options) -> list[Edit]:
    entry = server.stdio() if server.use_stdio else {"url": server.url, **server.headers}
    path = machine.folder("XDG_CONFIG_HOME", ".config") / "zed" / "settings.json"
    return [Edit(path, "MCP server", (Member(("context_servers", NAME), entry),))]


CLIENT = Client("zed", "Zed", is_installed, edits)
