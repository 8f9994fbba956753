"""Rate limits: calls a minute of each tool by each caller, over MCP and REST (PALAVER_TOOL_LIMITS)."""

from __future__ import annotations

import time
from functools import lru_cache

from palaver.errors import Refused, TooMany
from palaver.model.people import Caller
from palaver.operations.operation import Operation
from palaver.settings import Settings
from palaver.store.bus import reserved_calls
from palaver.store.workspaces import Allowance, Workspace

MINUTE = 60.0
UNLESS_LOOPBACK = 600
"""The default limit (calls a minute of one tool) if other machines can reach the server."""
MOST_KNOWN = 10_000
EVERY_TOOL = ""


async def refuse_too_many(workspace: Workspace, caller: Caller, operation: Operation) -> None:
    """Count a call, and refuse it above the limit. All servers on the same data count together."""
    tools = operation.tools
    limit = limit_of(workspace.settings, tools[0].name) if tools else 0
    if not limit:
        return
    key = caller.counted_as, operation.name
    allowance = _allowance(workspace, key)
    async with allowance.turn:
        if allowance.ends <= time.monotonic():
            allowance.calls = 0
        if not allowance.calls:
            reserved = await workspace.change(lambda change: reserved_calls.reserve(change, *key, limit))
            if not reserved.calls:
                raise TooMany(
                    f"Rate limit exceeded: {limit} calls of {tools[0].plain_name} a minute. "
                    f"Wait {reserved.wait} s, then try again.",
                    reserved.wait,
                )
            allowance.calls, allowance.ends = reserved.calls, time.monotonic() + MINUTE
        allowance.calls -= 1


def _allowance(workspace: Workspace, key: tuple[str, str]) -> Allowance:
    """What this server has reserved for a caller and an operation."""
    held = workspace.allowances
    if key not in held and len(held) >= MOST_KNOWN:
        now = time.monotonic()
        for old in [key for key, one in held.items() if one.ends <= now and not one.turn.locked()]:
            del held[old]
    return held.setdefault(key, Allowance())


def limit_of(settings: Settings, tool: str) -> int:
    """Allowed calls a minute of a tool; 0: no limit."""
    if settings.tool_limits == "auto":
        return 0 if settings.is_loopback else UNLESS_LOOPBACK
    limits = _limits(settings.tool_limits)
    return limits.get(tool.replace(".", "_"), limits.get(EVERY_TOOL, 0))


def must_know_tools(settings: Settings, known: set[str]) -> None:
    """Refuse settings that limit an unknown tool: such a limit has no effect."""
    if settings.tool_limits == "auto":
        return
    for name in _limits(settings.tool_limits).keys() - {EVERY_TOOL} - known:
        raise Refused(f"PALAVER_TOOL_LIMITS names the tool '{name}', which does not exist.")


@lru_cache(maxsize=16)
def _limits(text: str) -> dict[str, int]:
    """Limits by tool name. A number without a name is for all other tools."""
    pairs = (part.rpartition("=") for part in text.split(","))
    return {name.strip().replace(".", "_"): int(number) for name, _, number in pairs}
