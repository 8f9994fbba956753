"""Front matter: YAML between two lines of `---` at the start of a Markdown file.

Every value is text: `yes`, `007` and `2026-05-01` stay as they are. If it is not valid YAML (a colon in a title is
enough), the lines that look like `key: value` are used.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from palaver.importers import parse_time

LONGEST = 64 * 1024
DEEPEST = 200

_FENCE = re.compile(r"---[ \t]*\r?\n")
_END = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_PAIR = re.compile(r"^([A-Za-z_][\w -]{0,50}):[ \t]*(\S.*)$", re.MULTILINE)


def split(text: str) -> tuple[dict[str, Any], str]:
    """The properties by name, in lower case, and the text after the front matter."""
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
            return {}, text  # two horizontal rules with text between them
    return {key.lower(): value for key, value in found.items() if isinstance(key, str)}, text[end.end() :]


def load(text: str) -> Any:
    """Parse YAML with every scalar as text; None if it is invalid or nested too deeply."""
    # Blocks nest by indentation, or by dashes on one line.
    is_deep = any(len(line) - len(line.lstrip(" -?:")) > 10 * DEEPEST for line in text.splitlines())
    if is_deep or text.count("[") + text.count("{") > 10 * DEEPEST:
        return None
    import yaml  # a slow import, and few files have front matter

    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return yaml.load(text, Loader=loader)  # noqa: S506 - the base loader makes texts, lists and dicts, nothing else
    except Exception:  # invalid YAML also causes errors inside the library
        return None


def date(properties: dict[str, Any], *names: str) -> datetime | None:
    return next((at for name in names if (at := parse_time(text(properties, name)))), None)


def text(properties: dict[str, Any], *names: str) -> str:
    """The first of these properties that is not blank."""
    for name in names:
        value = properties.get(name)
        if isinstance(value, str) and value.strip() and value.strip() not in ("null", "~"):
            return value.strip()
    return ""
