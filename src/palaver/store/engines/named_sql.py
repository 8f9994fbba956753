"""Named SQL: each statement stands in a file under its name, and is looked up by it.

`sql/*.sql` is shared by both engines; `sql/<dialect>/queries.sql` adds what each says in its own way.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+).*$", re.MULTILINE)


@cache
def load(dialect: str) -> dict[str, str]:
    folder = files("palaver.store") / "sql"
    found: dict[str, str] = {}
    shared = sorted(p.name for p in folder.iterdir() if p.name.endswith(".sql"))
    for place in [folder / name for name in shared] + [folder / dialect / "queries.sql"]:
        own = _statements(place.read_text("utf-8"))
        assert own.keys().isdisjoint(found), f"{place.name} names again what has a name: {own.keys() & found.keys()}"
        found |= own
    return found


def _statements(text: str) -> dict[str, str]:
    """Cut a file at its `-- name:` lines."""
    parts = _NAME.split(text)[1:]
    return {name: body.strip().rstrip(";") for name, body in zip(parts[::2], parts[1::2], strict=True)}


def migrations(dialect: str, place: str) -> list[tuple[int, str]]:
    """The append-only list of schema steps: `sql/<dialect>/<place>/0001_….sql`, in order."""
    folder = files("palaver.store") / "sql" / dialect / place
    steps = sorted((p for p in folder.iterdir() if p.name.endswith(".sql")), key=lambda p: p.name)
    return [(int(p.name[:4]), p.read_text("utf-8")) for p in steps]
