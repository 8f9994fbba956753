"""Recognise the tool calls of an agent that call palaver itself.

Their results are texts that are already stored here. Recording them would make searches find each text again and again,
so the importers leave them out.

Programs name a tool of an MCP server in their own ways:

    mcp__palaver__msg_post               Claude Code, Codex; a plugin's server: mcp__plugin_palaver_palaver__msg_post
    palaver__msg_post                    Codex and Gemini CLI of earlier versions
    mcp_palaver_msg_post                 Gemini CLI, Cursor; with a prefix of Cursor's own: mcp_user-palaver_msg_post
    palaver_msg_post                     opencode
    palaver/msg_post, palaver.msg_post   others

The user may name the server differently, so any server with "palaver" in its name counts as palaver.
"""

from __future__ import annotations

import re
from typing import Any

OWN = "palaver"
MOST_CALLS = 200
"""The most calls to remember whose results are still to come."""

_SHAPES = (
    re.compile(r"mcp__(?P<server>.+?)__.+"),
    re.compile(r"(?P<server>[^_./:]+(?:_[^_./:]+)*)__.+"),
    re.compile(r"mcp[_-](?P<server>[^_]+)_.+"),
    re.compile(r"(?P<server>[\w-]+)[./:].+"),
    re.compile(r"(?P<server>palaver)_.+"),
)


def asks_for_own_tools(name: Any, given: Any) -> bool:
    """Whether Claude Code loads palaver's tools. It does so before it calls one for the first time."""
    query = given.get("query") if isinstance(given, dict) else None
    return name == "ToolSearch" and isinstance(query, str) and f"__{OWN}__" in query.casefold()


def is_own_tool(name: Any, server: Any = None) -> bool:
    """Whether this is a tool of palaver. `server` is its MCP server, if the file names it separately."""
    if isinstance(server, str) and OWN in server.casefold():
        return True
    if not isinstance(name, str):
        return False
    called = name.casefold()
    found = next((match for shape in _SHAPES if (match := shape.fullmatch(called))), None)
    return found is not None and OWN in found["server"]
