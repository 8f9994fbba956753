"""Front matter: what stands between two lines of `---` at the head of a Markdown file, as YAML.

Every value is taken as the text it is: `yes`, `007` and `2026-05-01` mean themselves. Where it is not YAML after all (a
colon in a title is enough), the lines that look like `key: value` count.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import yaml

from palaver.importers import moment

LONGEST = 64 * 1024
DEEPEST = 200

_FENCE = re.compile(r"---[ \t]*\r?\n")
_END = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_PAIR = re.compile(r"^([A-Za-z_][\w -]{0,50}):[ \t]*(\S.*)$", re.MULTILINE)
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def split(text: str) -> tuple[dict[str, Any], str]:
    """What it says about the text, by names in small letters, and the text after it."""
    if not (opening := _FENCE.match(text)):
        return {}, text
    end = _END.search(text, opening.end(), opening.end() + LONGEST)
    if end is None:
        return {}, text
    between = text[opening.end() : end.start()]
    found = load(between)
    if not isinstance(found, dict):
        found = {key: value.rstrip(" \t\r") for key, value in _PAIR.findall(between)}
        if not found and between.strip():
            return {}, text  # two rules with something else in between
    return {key.lower(): value for key, value in found.items() if isinstance(key, str)}, text[end.end() :]


def load(text: str) -> Any:
    """YAML of which every scalar is text; None where it cannot be read."""
    if text.count("[") + text.count("{") > 10 * DEEPEST or _is_deep(text):
        return None
    try:
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 - the base loader makes texts, lists and dicts, nothing else
    except Exception:  # of the many ways in which YAML can be wrong, some are errors of the library itself
        return None


def _is_deep(text: str) -> bool:
    """Blocks nest by indentation, or by dashes on one line."""
    return any(len(line) - len(line.lstrip(" -?:")) > 10 * DEEPEST for line in text.splitlines())


def date(properties: dict[str, Any], *names: str) -> datetime | None:
    return next((at for name in names if (at := moment(text(properties, name)))), None)


def text(properties: dict[str, Any], *names: str) -> str:
    """The first of these that is there and says something."""
    for name in names:
        value = properties.get(name)
        if isinstance(value, str) and value.strip() and value.strip() not in ("null", "~"):
            return value.strip()
    return ""
