"""Which files a tool of a coding agent is about to edit, from its arguments. Hooks run this: it imports little."""

from __future__ import annotations

import os
import re
from typing import Any

from palaver.text.tool_output import PATCH, is_edit

PATH_KEYS = ("file_path", "filePath", "path", "notebook_path", "target_file", "filename")
OLD_KEYS = ("old_string", "old_str", "oldString", "old_text")
PATCHED_FILE = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
MOST_READ = 5_000_000


def edited_files(tool: str, arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """The paths that the tool edits, each once, and the text that it replaces there, if it names one."""
    patch = next((text for value in arguments.values() for text in _texts(value) if PATCH in text), None)
    if patch is not None:
        paths = [(one or moved).strip() for one, moved in PATCHED_FILE.findall(patch.partition(PATCH)[2])]
        return [(path, "") for path in dict.fromkeys(paths) if path]
    if not is_edit(tool):
        return []
    path = next((value for key in PATH_KEYS if isinstance(value := arguments.get(key), str) and value), None)
    edits = arguments.get("edits")
    first = next((one for one in edits if isinstance(one, dict)), {}) if isinstance(edits, list) else arguments
    old = next((value for key in OLD_KEYS if isinstance(value := first.get(key), str)), "")
    return [(path, old)] if path else []


def _texts(value: Any) -> list[str]:
    given = value if isinstance(value, list) else [value]
    return [one for one in given if isinstance(one, str)]


def changed_lines(path: str, old: str) -> str:
    """The lines of a file that have this text, such as 12-20; '' if it is not there, or not one text file."""
    if not old.strip() or not os.path.isfile(path):
        return ""
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_READ).decode("utf-8", "replace").replace("\r\n", "\n")
    except (OSError, ValueError):
        return ""
    before, found, _ = content.partition(old.replace("\r\n", "\n"))
    if not found:
        return ""
    first = before.count("\n") + 1
    last = first + found.strip("\n").count("\n")
    return f"{first}-{last}" if last > first else str(first)
