"""Claude Desktop. It starts its servers: `claude_desktop_config.json` has a command."""

from __future__ import annotations

from palaver.setup.client import NAME, Client, Edit, Machine, Member, Options, Server


def is_installed(machine: Machine) -> bool:
    return (machine.applications / "Claude").is_dir()


def edits(machine: Machine, server: Server, options: Options) -> list[Edit]:
    path = machine.applications / "Claude" / "claude_desktop_config.json"
    return [Edit(path, "MCP server", (Member(("mcpServers", NAME), server.stdio()),))]


CLIENT = Client(
    "claude-desktop",
    "Claude Desktop",
    is_installed,
    edits,
    starts_programs_only=True,
    advice="Restart Claude Desktop.",
)
