"""Toolsets: groups of MCP tools to list. Every tool can be called, listed or not."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from palaver.errors import Invalid
from palaver.operations import OPERATIONS

RESEARCH = "deep-research"

CORE = (
    "bus_connect",
    "catch_up",
    "msg_post",
    "msg_wait",
    "msg_list",
    "msg_react",
    "thread_list",
    "knowledge.search",
    "knowledge.get",
    "conversation.search",
    "session.append",
    "notes.create",
)
"""Tools for a coding agent: bus, search over everything, its own sessions, notes."""

STANDARD = (
    *CORE,
    "msg_search",
    "msg_get",
    "msg_edit",
    "msg_unreact",
    "thread_create",
    "thread_get",
    "agent_list",
    "conversation_search",
    "notes.search",
    "notes.get",
    "media.search",
    "media.get",
    "media.transcript",
    "chats.search",
    "chats.get",
    "characters.search",
    "characters.get",
    "prompts.search",
    "prompts.get",
)
"""The default: the tools of all five specifications, and others that agents often need."""


@cache
def _groups() -> dict[str, tuple[str, ...]]:
    """The tools of each group and each single tool, by its lower-case name."""
    groups: dict[str, list[str]] = {"all": []}
    singles: dict[str, tuple[str, ...]] = {}
    for operation in OPERATIONS:
        for tool in operation.tools:
            singles[tool.name.lower()] = singles[tool.plain_name.lower()] = (tool.name,)
            if tool.toolset != RESEARCH:
                groups["all"].append(tool.name)
                groups.setdefault(tool.toolset, []).append(tool.name)
    # A group wins over a tool of the same name.
    return {**singles, "core": CORE, "standard": STANDARD, **{name: tuple(names) for name, names in groups.items()}}


def group_names() -> list[str]:
    return ["core", "standard", "all", *sorted({t.toolset for o in OPERATIONS for t in o.tools} - {RESEARCH})]


def select_tools(wanted: Iterable[str]) -> list[str]:
    """The names of the tools in these groups, in the order of the table of operations. Unknown names are refused."""
    known = _groups()
    named = [name.strip().lower() for name in wanted]
    asked = [name if name in known else name.replace(".", "_") for name in named]
    unknown = [name for name in asked if name not in known]
    if unknown:
        tools = [tool for operation in OPERATIONS for tool in operation.tools]
        plain_names = {tool.plain_name for tool in tools if tool.toolset != RESEARCH}
        raise Invalid(
            f"There is no group of tools and no tool named '{unknown[0]}'. Groups: {', '.join(group_names())}. "
            f"Tools: {', '.join(sorted(plain_names))}."
        )
    names = {name for one in asked for name in known[one]}
    return [tool.name for operation in OPERATIONS for tool in operation.tools if tool.name in names]
