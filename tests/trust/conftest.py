"""A server on each engine where everybody needs a token."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conftest import Engine
from tests.faults.press import IS_LONG
from tests.helpers import Server, start_server
from tests.trust.people import Key, make_workspace

ON_BOTH = {"nobody", "admin of 1", "agent of 2"}
"""Callers that are tested on both engines. The others are tested on SQLite, and `make faults` tests all on both."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def is_left_out(item: pytest.Item) -> bool:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        return params.get("engine") == "postgres" and params.get("comer", "nobody") not in ON_BOTH

    if not IS_LONG:
        config.hook.pytest_deselected(items=[item for item in items if is_left_out(item)])
        items[:] = [item for item in items if not is_left_out(item)]


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
