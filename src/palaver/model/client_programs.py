"""Names of MCP client programs: a short name for the database and a title for people.

`palaver watch` records sessions under the same short names, so that an agent finds the sessions of its program.
"""

from __future__ import annotations

import re

TITLES = {
    "claude-code": "Claude Code",
    "claude-ai": "Claude",
    "codex": "Codex",
    "cursor": "Cursor",
    "gemini-cli": "Gemini CLI",
    "opencode": "opencode",
    "visual-studio-code": "VS Code",
    "windsurf": "Windsurf",
    "zed": "Zed",
    "cline": "Cline",
}

_ENDINGS = re.compile(r"(-mcp)?(-client)?$")


def program_of(name: str) -> str:
    """The short name, the same for all versions: 'codex-mcp-client' is 'codex'."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")
    return (_ENDINGS.sub("", plain) or plain)[:60]


def title_of(name: str, title: str | None) -> str:
    return (title or TITLES.get(program_of(name)) or name).strip()[:100]
