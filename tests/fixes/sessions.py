"""Recorded sessions for tests: shell commands with their results, and edits."""

from __future__ import annotations

import json

from tests.helpers import word

NO_MODULE = (
    "Exit code 2\nTraceback (most recent call last):\n"
    '  File "/home/{who}/app/src/load.py", line {line}, in <module>\n    import {name}\n'
    "ModuleNotFoundError: No module named '{name}'"
)


def module() -> str:
    """A name that no other test has. It has no digits, as those do not count in an error."""
    return "lib" + word("").translate(str.maketrans("0123456789abcdef", "ghijklmnopqrstuv"))


def no_module(name: str, who: str = "ann", line: int = 3) -> str:
    return NO_MODULE.format(name=name, who=who, line=line)


def bash(command: str, result: str) -> list[tuple[str, str]]:
    return [("tool", f"[tool Bash] {json.dumps({'command': command})}"), ("tool", result)]


def codex(command: str, result: str) -> list[tuple[str, str]]:
    return [("tool", f"[tool exec_command] {json.dumps({'cmd': command})}"), ("tool", result)]


def edit(path: str, old: str, new: str) -> list[tuple[str, str]]:
    told = {"file_path": path, "old_string": old, "new_string": new}
    return [("tool", f"[tool Edit] {json.dumps(told)}"), ("tool", "The file was updated.")]


def ended_by(command: str, error: str, run: str = "pytest -q") -> list[tuple[str, str]]:
    return [*bash(run, error), *bash(command, "done"), *bash(run, "3 passed")]
