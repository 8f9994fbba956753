"""Operations: functions that doors (MCP, REST, CLI) offer as tools, routes and commands.

`OPERATIONS` is the table of all (`table.py`). It is imported when it is first used: a command needs only one operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palaver.operations.table import OPERATIONS as OPERATIONS


def __getattr__(name: str) -> Any:
    if name != "OPERATIONS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from palaver.operations.table import OPERATIONS

    return OPERATIONS
