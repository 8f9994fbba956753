"""The last session that could not be recorded. `palaver watch --once` has no terminal: it notes the problem in a file.

`palaver doctor` and `palaver setup --check` show it. It is removed when a session is recorded.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from palaver.model.times import iso, now
from palaver.synced_files import make_folder

NAME = "recording-problem.json"


def note(home: Path, problem: str, file: str = "") -> None:
    """Note a problem instead of the last one. A home that cannot be written is not an error."""
    with suppress(OSError):
        make_folder(home)
        (home / NAME).write_text(json.dumps({"at": iso(now()), "problem": problem[:500], "file": file}), "utf-8")


def read(home: Path) -> str | None:
    """A sentence about the last problem; None if there is none."""
    try:
        last = json.loads((home / NAME).read_text("utf-8"))
        return f"{last['file'] or 'a session'} could not be recorded at {last['at']}: {last['problem']}"
    except (OSError, ValueError, TypeError, KeyError):
        return None


def clear(home: Path) -> None:
    with suppress(OSError):
        (home / NAME).unlink(missing_ok=True)
