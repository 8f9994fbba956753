"""Measure the radar with real programs: `python -m tests.clients.radar_tries [--tries N]`. Prints tables.

In each of the twelve pairs of programs the first one edits files and the second one then edits the same files: was its
model told before each file changed, and did the edit go through when it was made again? And how long the hook takes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.clients.install import install
from tests.clients.model import Script
from tests.clients.programs import PROGRAMS
from tests.clients.run import Palaver, start_palaver
from tests.clients.test_hooks import NAMES, Desk
from tests.clients.test_radar import edits

TASK = "Rename the constant for the export"
PERCENT = 95


class Editing(Desk):
    """A program that changes one line of each file, and makes a stopped edit once more."""

    files: list[Path]
    told: int

    def script(self) -> Script:
        self.told = 0
        for file in self.files:
            *first, edit = edits(self.program.name, str(file))
            yield from (call for call in first)
            before = file.read_text()
            if "palaver stopped this edit once" in (yield edit):
                self.told += file.read_text() == before
                yield edit


def pair(first: str, second: str, count: int) -> tuple[int, int]:
    """How often the second program was told before its edit, and how many files it has changed at the end."""
    found = {program.name: program for program in PROGRAMS}
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, start_palaver(Path(folder) / "palaver") as palaver:
        home = Path(folder) / "home"
        files = [home / "work" / f"part{n}.py" for n in range(count)]
        files[0].parent.mkdir(parents=True)
        told = 0
        for name in (first, second):
            desk = Editing(found[name], install(found[name]), home, palaver)
            desk.files = files
            if name == "claude":
                (home / ".claude").mkdir(exist_ok=True)
                (home / ".claude" / "settings.json").write_text('{"permissions": {"defaultMode": "acceptEdits"}}')
            for file in files:
                file.write_text("VERSION = 1\n")
            desk.work(TASK)
            told = desk.told
        return told, sum(file.read_text() == "VERSION = 2\n" for file in files)


def hook_times(palaver: Palaver, folder: Path, count: int) -> list[float]:
    """How long `palaver hook edit` takes, in milliseconds. Every second file is edited by another agent too."""
    env = os.environ | {"PALAVER_HOME": str(palaver.home)}
    taken = []
    for n in range(count):
        file = folder / f"part{n}.py"
        file.write_text("VERSION = 1\n")
        with palaver.rest() as api:
            other = {"client": "cursor", "session": "other", "project": str(folder)}
            if n % 2:
                api.post("/api/hooks/edit", json=other | {"edit": "1", "files": [{"path": str(file)}]})
        edit = {"file_path": str(file), "old_string": "VERSION = 1", "new_string": "VERSION = 2"}
        given = {"session_id": "mine", "cwd": str(folder), "tool_name": "Edit", "tool_input": edit}
        began = time.monotonic()
        command = [str(Path(sys.executable).with_name("palaver")), "hook", "edit", "--client", "claude-code"]
        done = subprocess.run(command, input=json.dumps(given), env=env, capture_output=True, text=True, check=True)
        taken.append(1000 * (time.monotonic() - began))
        assert bool(done.stdout) == bool(n % 2), done
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=9, help="files in each pair of programs")
    parser.add_argument("--hooks", type=int, default=100, help="hooks whose time is measured")
    given = parser.parse_args()
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, start_palaver(Path(folder) / "palaver") as palaver:
        work = Path(folder) / "work"
        work.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=work, check=True)
        taken = hook_times(palaver, work, given.hooks)
        p95 = statistics.quantiles(taken, n=100)[PERCENT - 1]
        print(f"palaver hook edit: p50 {statistics.median(taken):.0f} ms, p95 {p95:.0f} ms of {len(taken)}")
    print("\n| first | second | told before the edit | went through then |\n|---|---|---|---|")
    all_told = 0
    for first, second in permutations(NAMES, 2) if given.tries else ():
        told, changed = pair(first, second, given.tries)
        all_told += told
        print(f"| {first} | {second} | {told} of {given.tries} | {changed} of {given.tries} |", flush=True)
    print(f"\ntold {all_told} of {12 * given.tries}")


if __name__ == "__main__":
    main()
