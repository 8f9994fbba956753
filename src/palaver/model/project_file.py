"""`palaver.toml` of a project. It comes with a repository, so it may be a stranger's.

It can name the project, keep its sessions out of palaver, turn recall off, and say what hooks do about claims on files.
It cannot set anything else: addresses, paths, models and secrets belong into `palaver.toml` in PALAVER_HOME.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

NAME = "palaver.toml"
PRIVATE = "the project is private"
"""Why a session is not recorded."""
_MOST_BYTES = 65_536
_LONGEST_NAME = 64
_MOST_NAMED = 20
_ON = (True, "on", "yes", "true")
_OFF = (False, "off", "no", "false")

OnClaim = Literal["warn", "refuse", "off"]
"""What hooks do before an edit of a file that somebody else claims: tell the agent, refuse the edit, or nothing."""


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """The content of a project's file. The defaults are those of a project without one."""

    project: str = ""
    """The name of the project, instead of its path."""
    is_private: bool = False
    """Sessions of this project are not recorded."""
    has_recall: bool = True
    """Whether hooks may add evidence from memory to prompts."""
    claims: OnClaim = "warn"
    ignored: tuple[str, ...] = ()
    """The keys that have no effect, as they may be printed."""
    problem: str = ""
    """Why the file could not be read."""


def find_project_file(folder: str | Path) -> Path | None:
    """The file in this folder, or the nearest one above it in the same git repository."""
    if not os.path.isabs(folder):
        return None
    start = Path(os.path.realpath(folder))
    folders = [start, *start.parents]
    root = next((n for n, one in enumerate(folders) if os.path.exists(one / ".git")), 0)
    return next((one / NAME for one in folders[: root + 1] if os.path.isfile(one / NAME)), None)


def read_project_file(folder: str | Path) -> ProjectFile:
    """The file that counts for this folder. It never raises: a broken file has no effect."""
    path = find_project_file(folder)
    if path is None:
        return ProjectFile()
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            return ProjectFile(problem="it is too long")
        top = tomllib.loads(content.decode("utf-8-sig"))
    except OSError:
        return ProjectFile(problem="it cannot be read")
    except (ValueError, RecursionError):
        return ProjectFile(problem="it is not valid TOML")
    table = top.pop("palaver", {})
    return _checked({**top, **table} if isinstance(table, dict) else top | {"palaver": table})


def _checked(values: dict[str, Any]) -> ProjectFile:
    name, claims = values.get("project"), "off" if values.get("claims") is False else values.get("claims")
    valid = {
        "project": isinstance(name, str) and _is_name(name.strip()),
        "private": values.get("private") in _ON + _OFF,
        "recall": values.get("recall") in _OFF,
        "claims": claims in get_args(OnClaim),
    }
    ignored = [_printable(key) for key in values if not valid.get(key)]
    return ProjectFile(
        project=str(name).strip() if valid["project"] else "",
        is_private=values.get("private") in _ON,
        has_recall=not valid["recall"],
        claims=cast(OnClaim, claims) if valid["claims"] else "warn",
        ignored=tuple(ignored[:_MOST_NAMED]),
    )


def _is_name(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_NAME and text.isprintable() and not set("/\\") & set(text)


def _printable(key: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in key[:_LONGEST_NAME])
