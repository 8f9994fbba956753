"""Servers of the test's own, on each engine: here they are killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
from tests.conftest import Engine
from tests.faults.press import Client
from tests.helpers import Server, start_server

Start = Callable[..., AbstractContextManager[Server]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.faults)


@pytest.fixture
def start(engine: Engine, tmp_path: Path) -> Start:
    """Starts a server; each time on the same data."""
    return partial(start_server, tmp_path / "home", PALAVER_DATABASE_URL=engine.fresh(), PALAVER_CONTENT_FILTER="off")


@pytest.fixture
def own(start: Start) -> Iterator[Server]:
    """A server that may be treated badly."""
    with start() as server:
        yield server


@pytest.fixture
def client(own: Server) -> Iterator[Client]:
    client = Client(own)
    yield client
    client.close()
