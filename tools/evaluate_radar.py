"""Measure the false alarms of the radar: `tools/evaluate_radar.py [REPOSITORY] [--weeks N]`.

Without a repository, some agents and a person work for some weeks in two worktrees of a made one: they edit, commit,
discard, leave things, and are denied edits. With one, its last commits are made again by agents that take turns. Time
is simulated, git is real. An alarm is false if no other agent has a change in the file that is not committed; one is
missed if another agent made such a change in the same worktree in the last 15 minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.store.bus import HUMAN, open_workspace

from palaver.model.projects import project_of
from palaver.operations.edits import editing, radar
from palaver.operations.edits.radar import EditReport, ReportedFile, report_edit
from palaver.settings import Settings
from palaver.store.sessions import file_edits
from palaver.store.workspaces import Workspace

PROGRAMS = ("claude-code", "codex", "gemini-cli", "opencode")
PERSON = "person"
FILES, DAYS, DAY = 40, 5, timedelta(hours=8)
MORNING = datetime(2026, 3, 2, 9, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.at = MORNING

    def __call__(self) -> datetime:
        return self.at


@dataclass
class Place:
    """A repository with two worktrees, and who has changes in which file that are not committed."""

    worktrees: list[Path]
    clock: Clock
    dirty: dict[tuple[Path, str], dict[str, datetime]] = field(default_factory=dict)

    def git(self, folder: Path, *words: str) -> str:
        at = f"{self.clock.at:%Y-%m-%dT%H:%M:%SZ}"
        names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.c", "GIT_AUTHOR_DATE": at}
        names |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.c", "GIT_COMMITTER_DATE": at}
        command = ["git", "-c", "init.defaultBranch=main", "-c", "gc.auto=0", *words]
        return subprocess.run(
            command, cwd=folder, env=os.environ | names, capture_output=True, check=True, text=True
        ).stdout

    def write(self, folder: Path, file: str, who: str) -> None:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{random.random()}\n")
        os.utime(path, (self.clock.at.timestamp(), self.clock.at.timestamp()))
        self.dirty.setdefault((folder, file), {})[who] = self.clock.at

    def commit(self, folder: Path, files: set[str]) -> None:
        changed = [file for file in sorted(files) if (folder, file) in self.dirty]
        if changed:
            self.git(folder, "add", "--", *changed)
            self.git(folder, "commit", "--allow-empty", "-qm", "x", "--", *changed)
        for file in changed:
            del self.dirty[folder, file]

    def discard(self, folder: Path, files: set[str]) -> None:
        for file in files:
            if self.dirty.pop((folder, file), None):
                self.git(folder, "checkout", "-q", "HEAD", "--", file)

    def others(self, file: str, who: str, folders: list[Path]) -> list[datetime]:
        """When other agents changed the file last, where it is not committed."""
        found = [item for one in folders for item in self.dirty.get((one, file), {}).items()]
        return [at for name, at in found if name not in (who, PERSON)]


class Replay:
    def __init__(self, workspace: Workspace, place: Place, dice: random.Random) -> None:
        self.workspace, self.place, self.dice = workspace, place, dice
        self.counts: Counter[str] = Counter()
        self.told: dict[tuple[str, str, Path], datetime] = {}

    async def edit(self, client: str, session: str, folder: Path, file: str) -> bool:
        """Whether the edit goes through, if need be at the second try."""
        place, at = self.place, self.place.clock.at
        report = EditReport(
            client=client, session=session, project=project_of(folder), folder=str(folder),
            edit=str(self.dice.random()), files=[ReportedFile(path=str(folder / file))],
        )  # fmt: skip
        answer = await report_edit.work(self.workspace, HUMAN, report)
        self.counts["edits"] += 1
        before, key = place.others(file, client, place.worktrees), (session, file, folder)
        here = [when for when in place.others(file, client, [folder]) if when > at - editing.LATELY]
        was_told = self.told.get(key, MORNING - DAY) > at - editing.LATELY
        if answer.decision == "stop":
            self.counts["alarms"] += 1
            self.counts["false alarms"] += not before
            self.told[key] = at
            if self.dice.random() < 0.4:
                return False
            again = await report_edit.work(self.workspace, HUMAN, report)
            self.counts["stopped again"] += again.decision != "go"
        elif here and not was_told:
            self.counts["missed"] += 1
        return True


async def weeks(replay: Replay, count: int) -> None:
    """Agents and a person at work: what happens next is always the earliest thing that anybody does."""
    place, dice, clock = replay.place, replay.dice, replay.place.clock
    people = [*PROGRAMS, PERSON]
    tasks: dict[str, tuple[Path, set[str], datetime, str]] = {}
    due = {who: MORNING + timedelta(minutes=dice.uniform(0, 60)) for who in people}
    until = MORNING + count * DAYS * DAY
    while min(due.values()) < until:
        who = min(due, key=lambda one: due[one])
        clock.at = due[who]
        if who not in tasks:
            files = {f"src/part{min(int(dice.paretovariate(0.8)), FILES)}.py" for _ in range(dice.randint(1, 5))}
            end = clock.at + timedelta(minutes=dice.uniform(2, 30))
            tasks[who] = (dice.choice(place.worktrees), files, end, f"{who}-{dice.randrange(10**9)}")
        folder, files, end, session = tasks[who]
        if clock.at >= end:
            del tasks[who]
            due[who] = clock.at + timedelta(minutes=dice.expovariate(1 / 25))
            way = dice.random()
            if way < 0.75:
                place.commit(folder, files)
            elif way < 0.85:
                place.discard(folder, files)
            continue
        file = dice.choice(sorted(files))
        is_made = who == PERSON or await replay.edit(who, session, folder, file)
        if is_made and dice.random() < 0.95:  # else its person says no
            place.write(folder, file, who)
        due[who] = clock.at + timedelta(minutes=dice.expovariate(1 / 2))


async def history(replay: Replay, repository: Path, most: int) -> None:
    """The commits of a repository, made again by agents that take turns."""
    place, dice = replay.place, replay.dice
    told = place.git(repository, "log", "--reverse", "--no-merges", "--name-only", f"-{most}", "--format=%x00%ct")
    for commit in told.split("\0")[1:]:
        at, *files = [line for line in commit.splitlines() if line]
        end = datetime.fromtimestamp(int(at), UTC)
        client = dice.choice(PROGRAMS)
        session, folder = f"{client}-{at}", place.worktrees[0]
        for n, file in enumerate(files):
            place.clock.at = max(place.clock.at, end - timedelta(seconds=20 * (len(files) - n)))
            if await replay.edit(client, session, folder, file):
                place.write(folder, file, client)
        place.clock.at = max(place.clock.at, end)
        place.commit(folder, set(files))


async def measure(given: argparse.Namespace, folder: Path) -> None:
    clock = Clock()
    for module in (radar, editing, file_edits):
        vars(module)["now"] = clock
    root = folder / "work"
    root.mkdir()
    place = Place([root, folder / "feature"], clock)
    place.git(root, "init", "-q")
    for n in range(FILES + 1):
        place.write(root, f"src/part{n}.py", "nobody")
    place.commit(root, {f"src/part{n}.py" for n in range(FILES + 1)})
    place.git(root, "worktree", "add", "-q", "-b", "feature", str(folder / "feature"))
    workspace = open_workspace(Settings(home=folder / "home", model="words"))
    try:
        replay = Replay(workspace, place, random.Random(given.seed))
        if given.repository:
            await history(replay, given.repository, given.commits)
        else:
            await weeks(replay, given.weeks)
    finally:
        workspace.close()
    counts = replay.counts
    share = 100 * counts["false alarms"] / max(1, counts["alarms"])
    print(
        ", ".join(f"{name}: {counts[name]}" for name in ("edits", "alarms", "false alarms", "missed", "stopped again"))
    )
    print(f"false: {share:.1f} % of the alarms, {100 * counts['false alarms'] / counts['edits']:.2f} % of the edits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path, nargs="?")
    parser.add_argument("--weeks", type=int, default=2)
    parser.add_argument("--commits", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    main()
