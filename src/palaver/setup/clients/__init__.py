"""The table of clients. A new client is a new file here and a new row."""

from __future__ import annotations

from palaver.setup.client import Client
from palaver.setup.clients import (
    claude_code,
    claude_desktop,
    cline,
    codex,
    cursor,
    gemini_cli,
    opencode,
    vs_code,
    windsurf,
    zed,
)

CLIENTS: tuple[Client, ...] = (
    claude_code.CLIENT,
    claude_desktop.CLIENT,
    codex.CLIENT,
    gemini_cli.CLIENT,
    cursor.CLIENT,
    vs_code.CLIENT,
    opencode.CLIENT,
    windsurf.CLIENT,
    zed.CLIENT,
    cline.CLIENT,
)
