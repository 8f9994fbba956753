"""Some real clients with a scripted model. `make clients` runs all of them, in their newest versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.clients.install import NotInstalled, install
from tests.clients.programs import PROGRAMS, readme_code
from tests.clients.run import IN_TESTS, start_palaver, visit
from tests.clients.script import CHECKS

SHORT = [program for program in PROGRAMS if program.name in IN_TESTS]


@pytest.mark.timeout(600)  # the first run downloads the client
@pytest.mark.parametrize("program", SHORT, ids=lambda program: program.name)
def test_a_client_connects_as_the_readme_says_and_can_do_everything(program, tmp_path: Path):
    try:
        place = install(program)
    except NotInstalled as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"{program.name} could not be installed: {error}")
    with start_palaver(tmp_path / "palaver") as palaver:
        outcome = visit(program, program.version, place, palaver)
    assert outcome.verdicts == dict.fromkeys(CHECKS, "ok"), outcome.said[-2000:]


def test_every_command_line_client_has_a_row_in_the_readme():
    for program in PROGRAMS:
        if program.readme_row:
            assert any("http://127.0.0.1:39765/mcp?tools=core" in code for code in readme_code(program.readme_row))
