"""Run the tests. If a few fail, run those once more, one after the other: on a busy machine a browser may be too slow.

    python tools/run_tests.py [ARGUMENTS OF PYTEST]

A test that fails twice has failed. The names of the others are printed, so that they can be mended.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FEW = 5
FAILED = 1
"""What pytest returns if tests failed, and nothing else went wrong."""
CACHE = Path(__file__).parent.parent / ".pytest_cache/v/cache/lastfailed"


def main(given: list[str]) -> int:
    pytest = [sys.executable, "-m", "pytest"]
    CACHE.unlink(missing_ok=True)
    result = subprocess.run([*pytest, "-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", *given]).returncode
    failed = list(json.loads(CACHE.read_text("utf-8"))) if CACHE.exists() else []
    if result != FAILED or not 0 < len(failed) <= FEW:
        return result
    print(f"\n==> {len(failed)} failed; once more, one after the other:", *failed, sep="\n    ", flush=True)
    return subprocess.run([*pytest, *failed]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
