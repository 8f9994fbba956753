"""`make serve` leaves everything in place that palaver imports."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.thorough
def test_packages_that_build_and_run_palaver_are_kept():
    """Packages that only build palaver are removed after the installation. tomlkit also edits settings."""
    found = re.search(r"^ +for name in .*?^ +done$", (ROOT / "tools" / "install").read_text("utf-8"), re.DOTALL | re.M)
    assert found
    done = subprocess.run(["sh", "-euc", f"{found[0]}\necho $unneeded"], cwd=ROOT, capture_output=True, text=True)
    runtime = re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / "runtime.txt").read_text("utf-8"), re.MULTILINE)
    assert "hatchling" in done.stdout.split()
    assert "tomlkit" in runtime
    assert not set(done.stdout.split()) & set(runtime)
