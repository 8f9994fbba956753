"""Around a file: whether somebody keeps it where it stands, and what it is called on every machine.

Not kept, unless the file itself is named: what stands in hidden folders (`.obsidian`, `.trash`, `.git`) and in those of
packages (`node_modules`); what stands in a tree of code below a folder that was named, for nobody asked for its README;
plain text and web pages in any tree of code; and what stands in the folder of a history, beside its conversations.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

IN_CODE = "in a tree of code; name its folder to import what is written there"
IN_A_HISTORY = "beside the conversations of a program or an export; name the files to import them as well"

FILES = re.compile(
    r"\.(?:md|markdown|mdown|mkd|txt|text|x?html?|pdf|epub|docx|docm|pptx|pptm|png|srt|vtt|json3|srv3|prompt|prompty|ya?ml)",
    re.IGNORECASE,
)
"""Endings of files that hold no conversations; without their folder's leave they are not even opened."""

_PAGES = re.compile(r"\.(?:txt|text|x?html?)", re.IGNORECASE)
_OF_PACKAGES = {"node_modules", "bower_components", "site-packages", "__pycache__", "__MACOSX", "venv", "vendor"}
_OF_CODE = {
    "package.json", "pyproject.toml", "setup.py", "requirements.txt", "Cargo.toml", "go.mod", "pom.xml", "build.gradle",
    "build.gradle.kts", "CMakeLists.txt", "Makefile", "composer.json", "Gemfile", "mix.exs", "Package.swift",
}  # fmt: skip
_OF_ITS_OWN = (".obsidian", ".git")


def is_private(path: PurePosixPath) -> bool:
    """Hidden, or below a folder that is, or among packages."""
    return any(part.startswith(".") or part in _OF_PACKAGES for part in path.parts if part not in (".", ".."))


def base_of(folder: Path) -> Path:
    """The vault or repository it belongs to, so that a note is called the same however little of it is imported."""
    absolute = Path(os.path.abspath(folder))
    for place in (absolute, *absolute.parents):
        if any((place / sign).is_dir() for sign in _OF_ITS_OWN):
            return place
    return absolute


def inside(path: Path, base: Path) -> str:
    relative = os.path.relpath(os.path.abspath(path), base.parent)
    return Path(relative).as_posix()


def inside_zip(zip_name: str, name: str) -> str:
    """As if it were unpacked: in the folder it has there, or else in one that is called like the zip."""
    name = "/".join(part for part in name.replace("\\", "/").split("/") if part not in ("", ".", ".."))
    return name if "/" in name else f"{zip_name.rpartition('.')[0] or zip_name}/{name}"


@dataclass
class Walk:
    """A folder that was named, as it is walked from its top."""

    root: Path
    base: Path
    left_out: int = 0
    """Files in trees of code."""
    _code: dict[str, str] = field(default_factory=dict)
    """The tree of code a folder belongs to, if any."""

    def enter(self, folder: str, files: Iterable[str]) -> None:
        is_top = not _OF_CODE.isdisjoint(files)
        above = self._code.get(os.path.dirname(folder), "")
        self._code[folder] = above or (folder if is_top else "")

    def keeps(self, path: Path) -> bool:
        if is_private(PurePosixPath(path.relative_to(self.root).as_posix())):
            return False
        tree = self._code.get(str(path.parent), "")
        if tree and tree != str(self.root):
            self.left_out += bool(FILES.fullmatch(path.suffix))
            return False
        return not (tree and _PAGES.fullmatch(path.suffix))


def histories(folders: Iterable[Iterable[str]]) -> list[tuple[str, ...]]:
    """For each history, given as the folders its conversations stand in, the one that has them all."""
    return [_common(sorted({*map(_parts, each)})) for each in folders]


def is_below(folder: str, tops: Iterable[tuple[str, ...]]) -> bool:
    parts = _parts(folder)
    return any(parts[: len(top)] == top for top in tops)


def _common(folders: list[tuple[str, ...]]) -> tuple[str, ...]:
    first, last = folders[0], folders[-1]
    length = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:length]


def _parts(folder: str) -> tuple[str, ...]:
    return tuple(part for part in folder.replace(" › ", "/").split("/") if part)
