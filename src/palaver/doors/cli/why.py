"""Command `why`: which recorded edit wrote a line of a file, and which commit."""

from __future__ import annotations

import difflib
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from palaver import child_process
from palaver.doors.cli import options, output
from palaver.doors.cli.ask import ask
from palaver.errors import Refused
from palaver.model.projects import project_of, typed_project
from palaver.model.times import iso
from palaver.text.lines import joined

AROUND = 10
"""So many lines before and after the line are sent along."""
MOST_BYTES = 20_000_000
MOST_FORMATTED = 4
"""So many commits that only formatted a line are looked through."""
BLAME = ("blame", "-w", "-C", "-C", "--no-textconv", "--line-porcelain")

_FIELD = re.compile(r"^([a-z-]+) (.*)$", re.MULTILINE)
_PLACE = re.compile(r"(?P<path>.+?):(?P<line>\d{1,9})(?::\d+)?")


@options.command("why", *options.ALL, no_args_is_help=True)
@click.argument("place", metavar="FILE:LINE")
@click.option("--project", metavar="PROJECT", help="Project of the sessions: a path or a name. [default: that of FILE]")
def why(target: options.Target, place: str, project: str | None) -> None:
    """Say why a line of a file is there: the session and turn that wrote it, the request, the decision, what was said
    against it later, and the commit.

    The line is found by its text, in recorded and imported sessions of all coding agents, also if it was moved or
    formatted since. "Unknown" means that no recorded edit surely wrote it.
    """
    found = _PLACE.fullmatch(place)
    if found is None:
        raise Refused("Name the file and the number of the line: palaver why src/auth.py:42.")
    path, number = Path(os.path.abspath(found["path"])), int(found["line"])
    lines = read_lines(path)
    if not 0 < number <= len(lines):
        raise Refused(f"{found['path']} has {len(lines):,} lines.")
    if not lines[number - 1].strip():
        raise Refused(f"Line {number} of {found['path']} is blank. Name a line with text.")
    root = next((one for one in path.parents if (one / ".git").exists()), path.parent)
    relative = path.relative_to(root).as_posix()
    commit = commit_of(root, relative, number, lines)
    given = {
        "path": relative,
        "line": lines[number - 1],
        "before": lines[max(0, number - 1 - AROUND) : number - 1],
        "after": lines[number : number + AROUND],
        "project": typed_project(project) if project else project_of(root),
        **({"until": commit["at"], "old_path": commit["path"]} if commit else {}),
    }
    answer: dict[str, Any] = ask(target, "edits.why:why", given)
    if target.format != "table":
        output.show(answer | {"commit": commit}, target.format)
        return
    output.say(answer["text"])
    if commit:
        output.say(f"Commit {commit['id'][:10]} by {commit['author']} on {commit['at'][:10]}: {commit['title']}")


def read_lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as problem:
        raise Refused(f"{path} cannot be read: {problem.strerror}.") from None
    if len(content) > MOST_BYTES or b"\0" in content[:8_000]:
        raise Refused(f"{path} is no text file, or larger than {MOST_BYTES // 1_000_000} MB.")
    return content.decode("utf-8", "replace").splitlines()


def commit_of(root: Path, path: str, number: int, lines: list[str]) -> dict[str, str] | None:
    """The commit that wrote a line, through moved blocks; None if it is not committed, or there is no git."""
    committed = child_process.ask_git(root, "cat-file", "blob", f"HEAD:{path}")
    if committed is None:
        return None
    old = committed.splitlines()
    same = difflib.SequenceMatcher(None, old, lines, autojunk=len(lines) > 5_000).get_matching_blocks()
    at = next((one.a + number - one.b for one in same if one.b < number <= one.b + one.size), None)
    if at is None:
        return None
    found: dict[str, str] | None = None
    ignored: list[str] = []
    for _ in range(MOST_FORMATTED):
        told = child_process.ask_git(root, *BLAME, *ignored, f"-L{at},{at}", "HEAD", "--", path)
        if not told:
            break
        id, named = told.partition(" ")[0], dict(_FIELD.findall(told))
        if found and id == found["id"]:
            break
        when = datetime.fromtimestamp(int(named["committer-time"]), UTC)
        about = {"id": id, "at": iso(when), "author": named["author"], "title": named["summary"]}
        if found and not _is_formatted(root, f"{id}:{named['filename']}", lines[number - 1]):
            break
        found = about | {"path": named["filename"]}
        ignored += ["--ignore-rev", id]  # a formatter may have made it: what was there before?
    return found


def _is_formatted(root: Path, blob: str, line: str) -> bool:
    """Whether an earlier version of a file has the line, with other breaks, blanks and quotes."""
    earlier = child_process.ask_git(root, "cat-file", "blob", blob)
    return earlier is not None and joined([line]) in joined(earlier.splitlines())
