"""The reference in docs/ is what the code says."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MADE = runpy.run_path(str(ROOT / "tools" / "reference.py"))["pages"]()


@pytest.mark.parametrize("name", MADE)
def test_the_page_is_up_to_date(name):
    written = (ROOT / "docs" / "reference" / name).read_text("utf-8")
    assert written == MADE[name], "run `make reference`"
