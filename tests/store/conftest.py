"""A workspace on each engine, without a server around it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.store.bus import Bus, opened

from palaver.settings import Settings


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, database_url=database_url)


@pytest.fixture
async def bus(settings: Settings) -> AsyncIterator[Bus]:
    async with opened(settings) as bus:
        yield bus
