"""A server on each engine where everybody needs a token."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conftest import Engine
from tests.helpers import Server, start_server


@pytest.fixture(scope="module")
def guarded(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"oauth-{engine.name}")
    before = "from palaver.doors.oauth import routes; routes.REGISTRATIONS_A_MINUTE = 10_000"
    with start_server(home, before=before, PALAVER_AUTH="token", PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server
