"""A server on each engine where everybody needs a token."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conftest import Engine
from tests.helpers import Server, start_server
from tests.trust.people import Key, make_workspace


@pytest.fixture(scope="module")
def guarded(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"guarded-{engine.name}")
    with start_server(home, PALAVER_AUTH="token", PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture(scope="module")
def admin(guarded: Server) -> Key:
    return Key(guarded, name="root", scopes=("read", "write", "admin"))


@pytest.fixture(scope="module")
def human(guarded: Server) -> Key:
    return Key(guarded, name="ann")


@pytest.fixture(scope="module")
def stranger(guarded: Server) -> Key:
    """Somebody in another workspace, who may do everything there."""
    make_workspace(guarded, "elsewhere")
    return Key(guarded, "elsewhere", name="eve", scopes=("read", "write", "admin"))
