"""Who is in with a token or a login, and how they are shown out when it ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator


class ActiveLogins:
    """Who is in with a token, or with a login: requests that are being answered, streams, connections."""

    def __init__(self) -> None:
        self._tasks: dict[str, set[asyncio.Task[object]]] = {}
        self._ended: set[asyncio.Task[object]] = set()
        self._finishing: set[asyncio.Task[object]] = set()

    @property
    def keys(self) -> set[str]:
        return set(self._tasks)

    @contextlib.contextmanager
    def track(self, *keys: str) -> Iterator[None]:
        """While the block lasts, the end of any of these tokens and logins raises LoginEnded in it."""
        task = asyncio.current_task()
        assert task is not None
        for key in keys:
            self._tasks.setdefault(key, set()).add(task)
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._ended:
                raise
            task.uncancel()
            raise LoginEnded from None
        finally:
            self._ended.discard(task)
            self._finishing.discard(task)
            for key in keys:
                self._tasks[key].discard(task)
                if not self._tasks[key]:
                    del self._tasks[key]

    def let_current_finish(self) -> None:
        """Whoever ends their own token or login gets the answer to that. Call it before the end is stored."""
        task = asyncio.current_task()
        if task and any(task in tasks for tasks in self._tasks.values()):
            self._finishing.add(task)

    def end(self, key: str) -> None:
        """It has ended: so does everything done with it."""
        for task in self._tasks.get(key, set()) - self._finishing - self._ended:
            self._ended.add(task)
            task.cancel()


class LoginEnded(Exception):
    """The token or login one came in with is no longer valid."""
