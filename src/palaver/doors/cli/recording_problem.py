"""The last session that could not be recorded. `palaver watch --once` has no terminal: it notes the problem in a file.

`palaver doctor` and `palaver setup --check` show it. It is removed when a session is recorded.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from palaver.model.times import iso, now
from palaver.synced_files import make_folder

NAME = "recording-problem.json"


@dataclass(frozen=True, slots=True)
class RecordingProblem:
    at: str
    """When it was, as ISO 8601."""
    problem: str
    """A sentence: what went wrong."""
    file: str = ""
    """The session file."""

    @property
    def says(self) -> str:
        return f"{self.file or 'a session'} could not be recorded at {self.at}: {self.problem}"


def note(home: Path, problem: str, file: str = "") -> None:
    """Note a problem instead of the last one. A home that cannot be written is not an error."""
    found = RecordingProblem(iso(now()), problem[:500], file)
    with suppress(OSError):
        make_folder(home)
        (home / NAME).write_text(json.dumps(asdict(found)), "utf-8")


def read(home: Path) -> RecordingProblem | None:
    try:
        return RecordingProblem(**json.loads((home / NAME).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def clear(home: Path) -> None:
    with suppress(OSError):
        (home / NAME).unlink(missing_ok=True)
