"""Rate limits: calls a minute of each tool by each caller, over MCP and REST (PALAVER_TOOL_LIMITS)."""

from __future__ import annotations

import time
from collections import deque
from functools import lru_cache
from math import ceil
from typing import TypeVar

from palaver.errors import Refused, TooMany
from palaver.model.people import Caller
from palaver.operations.operation import Operation
from palaver.settings import Settings
from palaver.store.workspaces import Workspace

MINUTE = 60.0
UNLESS_LOOPBACK = 600
"""The default limit (calls a minute of one tool) if other machines can reach the server."""
MOST_KNOWN = 10_000
EVERY_TOOL = ""
K = TypeVar("K")


def refuse_too_many(workspace: Workspace, caller: Caller, operation: Operation) -> None:
    """Count a call, and refuse it above the limit. Each server counts for itself."""
    tools = operation.tools
    limit = limit_of(workspace.settings, tools[0].name) if tools else 0
    if not limit:
        return
    refuse_above(workspace, (caller.counted_as, operation.name), limit, f"calls of {tools[0].plain_name}")


def refuse_above(workspace: Workspace, key: tuple[str, str], limit: int, what: str) -> None:
    if wait := seconds_to_wait(workspace.calls, key, limit, MOST_KNOWN):
        raise TooMany(f"Rate limit exceeded: {limit} {what} a minute. Wait {wait} s, then try again.", wait)


def seconds_to_wait(held: dict[K, deque[float]], key: K, limit: int, most: int) -> int:
    """Count a call, unless there were `limit` in the last minute: then return how long to wait. `held` has the times of
    the calls by caller, the latest caller last. Of more than `most` callers the first is forgotten."""
    now = time.monotonic()
    times = held[key] = held.pop(key, deque(maxlen=limit))
    if len(held) > most:
        del held[next(iter(held))]
    if len(times) == limit and times[0] > now - MINUTE:
        return ceil(times[0] + MINUTE - now)
    times.append(now)
    return 0


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
