"""Decide by its folder whether a library file is imported, and name it the same on every machine.

Left out, unless the user named the file: files in hidden folders (`.obsidian`, `.trash`, `.git`) and in folders of
packages (`node_modules`); files in a source tree below the named folder, like a README; plain text and web pages in any
source tree; and files beside the conversations of a chat history.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path, PurePosixPath

IN_CODE = "in a tree of code; name its folder to import what is written there"
IN_A_HISTORY = "beside the conversations of a program or an export; name the files to import them as well"

FILES = re.compile(
    r"\.(?:md|markdown|mdown|mkd|txt|text|x?html?|pdf|epub|docx|docm|pptx|pptm|png|srt|vtt|json3|srv3|prompt|prompty|ya?ml)",
    re.IGNORECASE,
)
"""Suffixes of files that never hold conversations. In a folder that is left out they are not opened."""

_PAGES = re.compile(r"\.(?:txt|text|x?html?)", re.IGNORECASE)
_OF_PACKAGES = {"node_modules", "bower_components", "site-packages", "__pycache__", "__MACOSX", "venv", "vendor"}
_OF_CODE = {
    "package.json", "pyproject.toml", "setup.py", "requirements.txt", "Cargo.toml", "go.mod", "pom.xml", "build.gradle",
    "build.gradle.kts", "CMakeLists.txt", "Makefile", "composer.json", "Gemfile", "mix.exs", "Package.swift",
}  # fmt: skip
_OF_ITS_OWN = (".obsidian", ".git")


def is_private(path: PurePosixPath) -> bool:
    """Whether a path is hidden, below a hidden folder, or in a folder of packages."""
    return any(part.startswith(".") or part in _OF_PACKAGES for part in path.parts if part not in (".", ".."))


def base_of(folder: Path) -> Path:
    """The vault or repository of a folder. Names within it are the same however little of it is imported."""
    absolute = Path(os.path.abspath(folder))
    for place in (absolute, *absolute.parents):
        if any((place / sign).is_dir() for sign in _OF_ITS_OWN):
            return place
    return absolute


def inside(path: Path, base: Path) -> str:
    relative = os.path.relpath(os.path.abspath(path), base.parent)
    return Path(relative).as_posix()


def inside_zip(zip_name: str, name: str) -> str:
    """The path of a file as if the zip were unpacked. A file at its top gets a folder named like the zip."""
    name = "/".join(part for part in name.replace("\\", "/").split("/") if part not in ("", ".", ".."))
    return name if "/" in name else f"{zip_name.rpartition('.')[0] or zip_name}/{name}"


@dataclass
class Walk:
    """The walk through a folder that the user named, from its top."""

    root: Path
    base: Path
    left_out: int = 0
    """The number of files left out because they are in a source tree."""
    _code: dict[str, str] = field(default_factory=dict)
    """The source tree of each folder; empty if it is in none."""

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
    """For each chat history, given as the folders of its conversations, the folder that contains them all."""
    tops = []
    for each in folders:
        paths = sorted({*map(_parts, each)})
        shared = takewhile(lambda pair: pair[0] == pair[1], zip(paths[0], paths[-1], strict=False))
        tops.append(tuple(part for part, _ in shared))
    return tops


def is_below(folder: str, tops: Iterable[tuple[str, ...]]) -> bool:
    parts = _parts(folder)
    return any(parts[: len(top)] == top for top in tops)


def _parts(folder: str) -> tuple[str, ...]:
    return tuple(part for part in folder.replace(" › ", "/").split("/") if part)
