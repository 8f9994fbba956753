"""The soak test for a few seconds. `make soak` is the long run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.mixed.clients import ACTIONS
from tests.faults.mixed.soak import Measurement, Soak, grown, run


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_many_clients_do_everything_without_an_error(engine: str, tmp_path: Path):
    soak = Soak(engine, minutes=10 / 60, clients=12, pause=0.1, measure_seconds=1.0, history=5, model="words")
    result = run(soak, tmp_path)
    assert result.errors == []
    assert result.checked > 20
    assert len(result.done) > len(ACTIONS) / 2
    assert len(result.measured) > 3


@pytest.mark.thorough
def test_memory_that_grows_is_found():
    def measured(*memory: float) -> list[Measurement]:
        return [Measurement(n / 6, mb, 0.0, 10, 10, n, 0) for n, mb in enumerate(memory)]

    flat, growing = [100.0] * 180, [100.0 + n / 10 for n in range(180)]
    assert grown(measured(*flat), settle=5) == []
    assert grown(measured(*growing), settle=5) != []
