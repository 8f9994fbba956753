"""What is known about client programs: a short name for each, and the name for people to see.

`palaver watch` records sessions under the same short names, so that an agent finds what was recorded of its program.
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
    """'codex-mcp-client' is 'codex': the same for every copy of a program, whatever its version."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")
    return (_ENDINGS.sub("", plain) or plain)[:60]


def title_of(name: str, title: str | None) -> str:
    return (title or TITLES.get(program_of(name)) or name).strip()[:100]
