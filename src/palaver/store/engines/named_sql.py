"""Loads SQL statements from files, by name, and the list of migrations.

Both engines share `sql/*.sql`. The files in `sql/<dialect>/` are for one engine.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+).*$", re.MULTILINE)


@cache
def load(dialect: str) -> dict[str, str]:
    """All statements for an engine, by name. A file is split at its `-- name:` lines."""
    folder = files("palaver.store") / "sql"
    found: dict[str, str] = {}
    places = [place for part in (folder, folder / dialect) for place in part.iterdir() if place.name.endswith(".sql")]
    for place in sorted(places, key=lambda place: place.name):
        parts = _NAME.split(place.read_text("utf-8"))[1:]
        own = {name: body.strip().rstrip(";") for name, body in zip(parts[::2], parts[1::2], strict=True)}
        assert own.keys().isdisjoint(found), f"{place.name} repeats the names {own.keys() & found.keys()}"
        found |= own
    return found


@cache
def migrations(dialect: str, place: str) -> list[tuple[int, str]]:
    """The migrations in order, with their numbers: `sql/<dialect>/<place>/0001_….sql`. The list only grows."""
    folder = files("palaver.store") / "sql" / dialect / place
    steps = sorted((p for p in folder.iterdir() if p.name.endswith(".sql")), key=lambda p: p.name)
    return [(int(p.name[:4]), p.read_text("utf-8")) for p in steps]
