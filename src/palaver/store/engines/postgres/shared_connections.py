"""The connections of this process to one PostgreSQL: a pool for all its schemas, and one connection that listens.

A server with many workspaces has as many connections as a server with one. A connection that comes from the pool is
switched to the schema that needs it. Engines share the connections by the URL; the last engine closes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterator

import psycopg
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from palaver.errors import Timeout
from palaver.store.engines.database import Row
from palaver.store.engines.postgres.connection import RawConnection

MOST_CONNECTIONS = 20
"""The connections of a process, besides the one that listens. The readers and writers of a workspace use at most 11."""
CONNECT_SECONDS = 5.0
"""How long to wait for a connection."""
AWAY_SECONDS = 1.0
"""How long a read waits for a server that takes no connections. Changes wait longer: a restart does not fail them."""
STILL_AWAY_SECONDS = 0.1
"""The same, for a server that was away a moment ago."""
LOCK_SECONDS = 5
"""How long to wait for a lock that somebody else holds."""
RECONNECT_SECONDS = 0.5
CHANNEL = "palaver"
"""Commits are announced here, with the name of their schema."""


class PooledConnection(psycopg.Connection[Row]):
    """A connection that knows which schema it sees."""

    schema = ""

    def use(self, schema: str) -> None:
        """See this schema only. In autocommit mode, so that no rollback can undo it."""
        if self.schema != schema:
            self.begin_by_hand(True)
            self.execute(f'SET search_path TO "{schema}"'.encode())
            self.schema = schema

    def begin_by_hand(self, is_so: bool) -> None:
        """Whether psycopg sends no BEGIN before a statement. It may not be changed within a transaction."""
        if self.autocommit != is_so:
            self.autocommit = is_so


class SharedConnections:
    def __init__(self, url: str) -> None:
        self._url = url
        psycopg.connect(url).close()  # a wrong URL is an error at once; the pool would try again for a while
        self._is_away = False
        self._pool: ConnectionPool[PooledConnection] = ConnectionPool(
            url,
            connection_class=PooledConnection,
            kwargs={"row_factory": dict_row, "options": f"-c lock_timeout={LOCK_SECONDS}s"},
            min_size=1,
            max_size=MOST_CONNECTIONS,
            timeout=CONNECT_SECONDS,
            reconnect_timeout=CONNECT_SECONDS,  # the next caller tries at once; else the pauses grow to minutes
            open=True,
        )
        self.users = 0
        self._listening: dict[asyncio.AbstractEventLoop, _Listening] = {}

    @contextlib.contextmanager
    def connection(self, *, is_patient: bool = True) -> Iterator[PooledConnection]:
        """A connection. Call its `use` before anything else."""
        try:
            raw = self._pool.getconn(None if is_patient else STILL_AWAY_SECONDS if self._is_away else AWAY_SECONDS)
        except PoolTimeout:
            self._is_away = self._refuses_connections()
            if is_patient or self._is_away:
                raise
            raw = self._wait_for_busy_connections()
        self._is_away = False
        try:
            with raw:
                yield raw
        finally:
            self._pool.putconn(raw)

    def _wait_for_busy_connections(self) -> PooledConnection:
        try:
            return self._pool.getconn()
        except PoolTimeout:
            raise Timeout() from None

    def _refuses_connections(self) -> bool:
        try:
            psycopg.connect(self._url, connect_timeout=1).close()
        except psycopg.errors.TooManyConnections:
            return False
        except psycopg.OperationalError:
            return True
        return False

    def check(self) -> None:
        """Replace connections that are broken."""
        self._pool.check()

    async def watch(self, schema: str, woken: Callable[[], None]) -> None:
        """Run until cancelled, calling `woken` after each commit in a schema by any process."""
        loop = asyncio.get_running_loop()
        listening = self._listening.get(loop)
        if listening is None:
            listening = self._listening[loop] = _Listening(self._url)
        listening.woken.setdefault(schema, set()).add(woken)
        woken()  # for commits before this
        try:
            await loop.create_future()
        finally:
            listening.woken[schema].discard(woken)
            if not listening.woken[schema]:
                del listening.woken[schema]
            if not listening.woken:
                listening.task.cancel()
                self._listening.pop(loop, None)

    def close(self) -> None:
        self._pool.close()


class _Listening:
    """The connection that listens, in one event loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.woken: dict[str, set[Callable[[], None]]] = {}
        self.task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as raw:
                    await raw.execute(f'LISTEN "{CHANNEL}"'.encode())
                    for schema in list(self.woken):  # for commits before this connection
                        self._wake(schema)
                    async for notice in raw.notifies():
                        self._wake(notice.payload)
            await asyncio.sleep(RECONNECT_SECONDS)

    def _wake(self, schema: str) -> None:
        for woken in list(self.woken.get(schema, ())):
            woken()


_lock = threading.Lock()
_shared: dict[tuple[int, str], SharedConnections] = {}


def _key(url: str) -> tuple[int, str]:
    return os.getpid(), url  # a process that was forked needs its own


def join(url: str) -> SharedConnections:
    """The connections of this process to a PostgreSQL. Call `leave` in the end."""
    with _lock:
        key = _key(url)
        if key not in _shared:
            _shared[key] = SharedConnections(url)
        _shared[key].users += 1
        return _shared[key]


def leave(url: str) -> None:
    with _lock:
        key = _key(url)
        shared = _shared[key]
        shared.users -= 1
        if shared.users:
            return
        del _shared[key]
    shared.close()


@contextlib.contextmanager
def borrowed(url: str) -> Iterator[RawConnection]:
    """A connection for a short look: from the pool of this process, if there is one. It sees no workspace."""
    with _lock:
        shared = _shared.get(_key(url))
    if shared is None:
        with psycopg.connect(url, row_factory=dict_row) as raw:
            yield raw
    else:
        with shared.connection() as pooled:
            pooled.begin_by_hand(False)
            yield pooled
