"""The generated reference pages and the list of commands match the code."""

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
WRITTEN = {path.name: path for path in (ROOT / "docs" / "reference").glob("*.md")}


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "reference.py"))


@pytest.fixture(scope="module")
def made(reference) -> dict[str, str]:
    return dict(reference["pages"]())


def test_the_list_of_commands_is_up_to_date(reference):
    assert reference["COMMANDS"].read_text("utf-8") == reference["commands_json"](), "run `make reference`"


def test_every_page_is_there_and_none_is_left_over(made):
    assert made.keys() == WRITTEN.keys()


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_page_is_up_to_date(made, name):
    assert WRITTEN[name].read_text("utf-8") == made[name], "run `make reference`"
