"""Patterns of file paths: `*` is any part of a name, `?` one character, `**` any folders. A folder means all below it.

Brackets and braces are ordinary characters, because files are called `[id].tsx`. There are no regular expressions, so
no pattern is slow.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any


class _Wild(Enum):
    SOME, ONE, FOLDERS = auto(), auto(), auto()


Name = tuple[str | _Wild, ...]
"""The characters of a file's or folder's name."""
_CHARACTERS = {"*": _Wild.SOME, "?": _Wild.ONE}


def normal_path(path: str) -> str:
    """A path or pattern as it is compared: relative, with slashes, in one form of Unicode. Raises ValueError if it
    leads out of its root."""
    parts = unicodedata.normalize("NFC", path).replace("\\", "/").split("/")
    parts = [part for part in parts if part not in ("", ".")]
    if ".." in parts:
        raise ValueError("'..' leads out of the project")
    return "/".join(parts)


def matches(pattern: str, path: str, *, ignores_case: bool = False) -> bool:
    """Whether a file, or a folder above it, matches. The path has no wildcards: a file may be called `a*`."""
    names = [tuple(name) for name in _parts(path, ignores_case)]
    return _meet([*_names(pattern, ignores_case), _Wild.FOLDERS], names, _Wild.FOLDERS, _names_meet)


def overlap(one: str, other: str, *, ignores_case: bool = False) -> bool:
    """Whether there can be a file that matches both. A pattern such as `src/*.py` or `notes.md` is taken for files, as
    nobody keeps a folder `notes.md`, unless the other pattern names something in it."""
    here, there = _names(one, ignores_case), _names(other, ignores_case)
    if here == there[: len(here)] or there == here[: len(there)]:
        return True
    return _meet(_with_below(here), _with_below(there), _Wild.FOLDERS, _names_meet)


def _parts(path: str, ignores_case: bool) -> list[str]:
    normal = normal_path(path)
    return (normal.casefold() if ignores_case else normal).split("/")


def _names(pattern: str, ignores_case: bool) -> list[Name | _Wild]:
    return [
        _Wild.FOLDERS if part == "**" else tuple(_CHARACTERS.get(one, one) for one in part)
        for part in _parts(pattern, ignores_case)
    ]


def _with_below(names: list[Name | _Wild]) -> list[Name | _Wild]:
    last = names[-1]
    return names if isinstance(last, tuple) and "." in last[1:] else [*names, _Wild.FOLDERS]


def _names_meet(one: Name, other: Name) -> bool:
    return one == other or _meet(one, other, _Wild.SOME, _characters_meet)


def _characters_meet(one: str | _Wild, other: str | _Wild) -> bool:
    return one == other or _Wild.ONE in (one, other)


def _meet(one: Sequence[Any], other: Sequence[Any], star: _Wild, fits: Callable[[Any, Any], bool]) -> bool:
    """Whether two patterns have something in common. `star` is any number of items; single items are compared with
    `fits`."""
    if star not in one:
        one, other = other, one
    if star not in one:
        return len(one) == len(other) and all(map(fits, one, other))
    first, *middle, last = _split(one, star)
    if star in other:  # the stars of one can be what is in the middle of the other
        head, *_, tail = _split(other, star)
        return all(map(fits, first, head)) and all(map(fits, reversed(last), reversed(tail)))
    at, end = len(first), len(other) - len(last)
    if at > end or not (all(map(fits, first, other)) and all(map(fits, last, other[end:]))):
        return False
    for part in middle:
        found = (n for n in range(at, end - len(part) + 1) if all(map(fits, part, other[n : n + len(part)])))
        place = next(found, None)
        if place is None:
            return False
        at = place + len(part)
    return True


def _split(items: Sequence[Any], star: _Wild) -> list[Sequence[Any]]:
    """The parts between the stars."""
    stars = [n for n, item in enumerate(items) if item is star]
    return [items[a + 1 : b] for a, b in zip([-1, *stars], [*stars, len(items)], strict=True)]
