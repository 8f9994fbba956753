"""The reference in docs/ is what the code says."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WRITTEN = {path.name: path for path in (ROOT / "docs" / "reference").glob("*.md")}


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return dict(runpy.run_path(str(ROOT / "tools" / "reference.py"))["pages"]())


def test_every_page_is_there_and_none_is_left_over(made):
    assert made.keys() == WRITTEN.keys()


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_page_is_up_to_date(made, name):
    assert WRITTEN[name].read_text("utf-8") == made[name], "run `make reference`"
