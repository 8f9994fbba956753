"""Some real clients with a scripted model. `make clients` runs all of them, in their newest versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.clients.install import installed
from tests.clients.programs import PROGRAMS, ROOT, readme_code
from tests.clients.run import IN_TESTS, start_palaver, visit
from tests.clients.script import CHECKS

pytestmark = pytest.mark.clients

SHORT = [program for program in PROGRAMS if program.name in IN_TESTS]


@pytest.mark.parametrize("program", SHORT, ids=lambda program: program.name)
def test_a_client_connects_as_the_readme_says_and_can_do_everything(program, tmp_path: Path):
    place = installed(program)
    if not place:
        assert os.environ.get("CI") != "true", f"{program.name} is not installed: run tools/clients --install"
        pytest.skip(f"{program.name} is not installed: run tools/clients --install")
    with start_palaver(tmp_path / "palaver") as palaver:
        outcome = visit(program, program.version, place, palaver)
    assert outcome.verdicts == dict.fromkeys(CHECKS, "ok"), outcome.said[-2000:]


def test_the_guide_gives_the_same_commands_as_the_readme():
    guide = (ROOT / "docs" / "guides" / "clients.md").read_text("utf-8")
    for client in (*(program.readme_row for program in PROGRAMS if program.readme_row), "Cursor", "VS Code"):
        lines = [code for code in readme_code(client) if "http://127.0.0.1:39765/mcp?tools=core" in code]
        assert lines, client
        assert all(line in guide for line in lines), client
