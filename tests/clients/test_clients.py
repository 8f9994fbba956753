"""Some real clients with a scripted model. `make clients` runs all of them, in their newest versions."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.clients.install import installed
from tests.clients.programs import PROGRAMS, guide_code
from tests.clients.run import IN_TESTS, start_palaver, visit
from tests.clients.script import CHECKS

from palaver.setup.clients import CLIENTS, Machine, Options, Server

pytestmark = pytest.mark.clients

SHORT = [program for program in PROGRAMS if program.name in IN_TESTS]


@pytest.mark.parametrize("program", SHORT, ids=lambda program: program.name)
def test_a_client_connects_as_the_guide_says_and_can_do_everything(program, tmp_path: Path):
    place = installed(program)
    if not place:
        assert os.environ.get("CI") != "true", f"{program.name} is not installed: run tools/clients --install"
        pytest.skip(f"{program.name} is not installed: run tools/clients --install")
    with start_palaver(tmp_path / "palaver") as palaver:
        outcome = visit(program, program.version, place, palaver)
    assert outcome.verdicts == dict.fromkeys(CHECKS, "ok"), outcome.said[-2000:]


def test_setup_writes_the_entries_that_the_guide_shows():
    machine, server = Machine(Path("/nowhere")), Server("http://127.0.0.1:39765/mcp?tools=core", "/path/to/palaver")
    for client in CLIENTS:
        shown = [json.loads(code) for code in guide_code(client.title) if code.startswith("{")]
        (entry,) = client.edits(machine, server, Options(False, False))[0].entries
        written = entry.value
        for key in reversed(entry.path):
            written = {key: written}
        assert shown in ([], [written]), client.title
