"""Perform one operation for a command: through the running server on the same data, a server elsewhere, or here.

A command must be fast. So it first asks the running server, and imports the operations only if there is none.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from palaver.doors.local import server_socket
from palaver.errors import Unavailable, error_of_status

if TYPE_CHECKING:
    from palaver.doors.cli.options import Target, ThreadOption
    from palaver.operations.operation import Operation


def ask(target: Target, place: str, given: dict[str, Any], thread: ThreadOption = "none") -> Any:
    """The answer of an operation, as REST shows it. `place` is the module below `operations`, and the name."""
    if not target.server:
        flags = target.flags
        home = server_socket.home_of(flags)
        if connection := server_socket.connect(home, "commands", flags, target.workspace):
            return _ask_server(connection, {"operation": place.rpartition(":")[2], "given": given, "thread": thread})
    with no_collection():
        import asyncio

        from palaver.doors.cli.connection import connect, perform

        module, _, name = place.partition(":")
        if module:  # import only the module of the operation
            operation: Operation = getattr(import_module(f"palaver.operations.{module}"), name)
        else:  # it has no name in a module, but is in the table of all
            from palaver.operations import OPERATIONS

            operation = next(operation for operation in OPERATIONS if operation.name == name)

    async def work() -> Any:
        async with connect(target) as connection:
            return await perform(connection, operation, given, thread)

    return asyncio.run(work())


@contextmanager
def no_collection() -> Iterator[None]:
    """Import much without garbage collection, which would look at all new objects again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _ask_server(connection: server_socket.SocketConnection, request: dict[str, Any]) -> Any:
    try:
        connection.send(json.dumps(request).encode() + b"\n")
        line = connection.lines.readline()
    except OSError:
        line = b""
    finally:
        connection.close()
    if not line:
        raise Unavailable("The server stopped during this command. Look whether it was done, or repeat it.")
    answer = json.loads(line)
    if "error" in answer:
        raise error_of_status(answer["error"]["status"], answer["error"]["message"])
    return answer["answer"]
