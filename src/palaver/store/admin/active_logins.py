"""Tracks running requests by token and login, and cancels them when the token or login ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator


class ActiveLogins:
    """Running requests, streams and connections, by the id of their token or login."""

    def __init__(self) -> None:
        self._tasks: dict[str, set[asyncio.Task[object]]] = {}
        self._ended: set[asyncio.Task[object]] = set()
        self._finishing: set[asyncio.Task[object]] = set()

    @property
    def keys(self) -> set[str]:
        return set(self._tasks)

    @contextlib.contextmanager
    def track(self, *keys: str) -> Iterator[None]:
        """Raise LoginEnded in this block as soon as one of these tokens or logins ends."""
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
        """Let the current request finish even if it ends its own token or login. Call this before the end is stored."""
        task = asyncio.current_task()
        if task and any(task in tasks for tasks in self._tasks.values()):
            self._finishing.add(task)

    def end(self, key: str) -> None:
        """Cancel all requests of a token or login that has ended."""
        for task in self._tasks.get(key, set()) - self._finishing - self._ended:
            self._ended.add(task)
            task.cancel()


class LoginEnded(Exception):
    """The token or login of this request is no longer valid."""
