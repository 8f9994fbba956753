"""Measure `palaver why` with the real history of a repository: `tools/evaluate_why.py REPOSITORY`.

Some of the commits become sessions of coding agents, in the form in which importers record them: a request, and an edit
for each changed place. The others stay people's. Lines of the last commit are then asked for. `git blame -w -C -C` says
which commit is right. --formatter runs a command on all files first. With --squash N, only the time of the last one of
each N commits is known.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.store.bus import HUMAN, open_workspace

from palaver.importers import tool_call
from palaver.model.sessions import Owner, Turn
from palaver.operations.edits.why import LineOrigin, Why, why
from palaver.operations.sessions.owners import owner_or_new
from palaver.settings import Settings
from palaver.store.sessions import sessions
from palaver.store.workspaces import Workspace

HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
AROUND, RIGHT = 10, "agent's right"
PROGRAMS = ("claude-code", "codex", "opencode", "gemini-cli")


@dataclass
class Commit:
    id: str
    at: datetime
    title: str
    program: str | None
    """The agent's program; None for a commit of a person."""
    turns: dict[str, set[str]] = field(default_factory=dict)
    """The ids of its edits, by file."""


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace")


def commits_of(folder: Path, most: int, share: float, dice: random.Random) -> list[Commit]:
    lines = git(folder, "log", "--reverse", "--no-merges", "--format=%H%x09%ct%x09%s", f"-{most}").splitlines()
    found = []
    for line in lines:
        id, at, title = line.split("\t", 2)
        program = dice.choice(PROGRAMS) if dice.random() < share else None
        found.append(Commit(id, datetime.fromtimestamp(int(at), UTC), title, program))
    return found


@dataclass
class Change:
    path: str
    is_new: bool
    hunks: list[tuple[str, str, list[str]]]
    """The old text, the new one, and the lines of the patch."""


def changes_of(folder: Path, commit: str) -> Iterator[Change]:
    shown = git(folder, "show", "--format=", "--no-color", "--no-renames", "--no-ext-diff", "-U3", commit)
    for part in shown.split("\ndiff --git ") if shown else []:
        named = re.search(r"^\+\+\+ b/(.+)$", part, re.MULTILINE)
        if named is None or "\nBinary " in part:
            continue
        hunks: list[tuple[str, str, list[str]]] = []
        for line in part.split("\n"):
            if HUNK.match(line):
                hunks.append(("", "", []))
            elif hunks and line[:1] in "+- ":
                hunks[-1][2].append(line)
        hunks = [
            (
                "\n".join(line[1:] for line in lines if line[:1] != "+"),
                "\n".join(line[1:] for line in lines if line[:1] != "-"),
                lines,
            )
            for _, _, lines in hunks
        ]
        yield Change(named[1], "\nnew file mode" in part, hunks)


def calls_of(program: str, change: Change, root: str) -> list[str]:
    """The texts of the calls with which a program makes a change."""
    path = f"{root}/{change.path}"
    if program == "codex":
        verb = "Add" if change.is_new else "Update"
        lines = [line for _, _, some in change.hunks for line in ["@@", *some]]
        patch = "\n".join(["*** Begin Patch", f"*** {verb} File: {change.path}", *lines, "*** End Patch"])
        return [tool_call("apply_patch", {"input": patch}, "short")]
    if change.is_new:
        content = "\n".join(new for _, new, _ in change.hunks)
        names = {"claude-code": ("Write", "file_path"), "opencode": ("write", "filePath")}
        tool, key = names.get(program, ("write_file", "file_path"))
        return [tool_call(tool, {key: path, "content": content}, "short")]
    tool, key, old_key, new_key = {
        "claude-code": ("Edit", "file_path", "old_string", "new_string"),
        "opencode": ("edit", "filePath", "oldString", "newString"),
    }.get(program, ("replace", "file_path", "old_string", "new_string"))
    return [tool_call(tool, {key: path, old_key: old, new_key: new}, "short") for old, new, _ in change.hunks]


async def record(workspace: Workspace, folder: Path, commits: list[Commit]) -> None:
    owners: dict[str, Owner] = {}
    for program in PROGRAMS:
        name = f"{program}-project"
        owners[program] = await workspace.change(lambda change, name=name: owner_or_new(change, HUMAN, name))
    for commit in commits:
        if commit.program is None:
            continue
        owner, session = owners[commit.program], f"session-{commit.id[:12]}"
        about = (commit.at, commit.at, "project", commit.program)
        turns = [Turn(f"{commit.id[:12]}-0", session, owner.id, "user", commit.title or "go on", *about)]
        for change in changes_of(folder, commit.id):
            for text in calls_of(commit.program, change, "/home/somebody/project"):
                id = f"{commit.id[:12]}-{len(turns)}"
                commit.turns.setdefault(change.path, set()).add(id)
                turns.append(Turn(id, session, owner.id, "tool", text, *about))
        await workspace.change(lambda change, owner=owner, turns=turns: sessions.put(change, owner, turns))


BLAMED = re.compile(r"^([0-9a-f]{40}) (\d+) (\d+)")


def blamed(folder: Path, path: str, *options: str) -> list[tuple[str, str, str, int]]:
    """For each line its text, the commit, the path it had there, and when that was committed."""
    found: list[tuple[str, str, str, int]] = []
    commit = ""
    files: dict[str, str] = {}
    times: dict[str, int] = {}
    try:
        shown = git(folder, "blame", "-w", "-C", "-C", *options, "--line-porcelain", "HEAD", "--", path)
    except subprocess.CalledProcessError:
        return []
    for line in shown.split("\n"):
        if line.startswith("\t"):
            found.append((line[1:], commit, files.get(commit, path), times[commit]))
        elif at := BLAMED.match(line):
            commit = at[1]
        elif line.startswith("filename "):
            files[commit] = line[9:]
        elif line.startswith("committer-time "):
            times[commit] = int(line[15:])
    return found


@dataclass(frozen=True)
class Question:
    path: str
    number: int
    lines: list[str]
    commit: str
    old_path: str
    committed: datetime


def questions_of(folder: Path, arguments: argparse.Namespace, dice: random.Random) -> list[Question]:
    """Lines of the last commit, some of each file, each with the commit that wrote it."""
    ignored: list[str] = []
    if arguments.formatter:
        subprocess.run(shlex.split(arguments.formatter), cwd=folder, check=False, capture_output=True)
        git(folder, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qam", "Format")
        ignored = ["--ignore-rev", "HEAD"]
    paths = [path for path in git(folder, "ls-files").splitlines() if path.endswith(tuple(arguments.endings))]
    dice.shuffle(paths)
    found: list[Question] = []
    for path in paths:
        lines = blamed(folder, path, *ignored)
        texts = [text for text, *_ in lines]
        wanted = [n for n, text in enumerate(texts) if text.strip()]
        for n in dice.sample(wanted, min(len(wanted), arguments.lines_of_file)):
            _, commit, old_path, at = lines[n]
            found.append(Question(path, n, texts, commit, old_path, datetime.fromtimestamp(at, UTC)))
        if len(found) >= arguments.lines:
            break
    return found[: arguments.lines]


async def ask(workspace: Workspace, question: Question, until: datetime) -> LineOrigin:
    lines, n = question.lines, question.number
    around = {"before": lines[max(0, n - AROUND) : n], "after": lines[n + 1 : n + 1 + AROUND]}
    about = {"path": question.path, "old_path": question.old_path, "until": until.isoformat(), "project": "project"}
    answer: LineOrigin = await why.perform(workspace, HUMAN, Why(line=lines[n], **around, **about))
    return answer


async def evaluate(folder: Path, workspace: Workspace, arguments: argparse.Namespace) -> None:
    dice = random.Random(arguments.seed)
    commits = commits_of(folder, arguments.commits, arguments.share, dice)
    size, known = arguments.squash, {commit.id: commit for commit in commits}
    squashed = {one.id: commits[min(n - n % size + size, len(commits)) - 1].at for n, one in enumerate(commits)}
    began = time.perf_counter()
    await record(workspace, folder, commits)
    edits = sum(len(ids) for commit in commits for ids in commit.turns.values())
    print(f"{len(commits)} commits, {edits} edits recorded in {time.perf_counter() - began:.1f} s", flush=True)
    told: Counter[str] = Counter()
    times = []
    for question in questions_of(folder, arguments, dice):
        commit = known.get(question.commit)
        began = time.perf_counter()
        answer = await ask(workspace, question, squashed.get(question.commit, question.committed))
        times.append(time.perf_counter() - began)
        right = commit.turns if commit else {}
        ids = right.get(question.old_path) or right.get(question.path) or set()
        whose = ("agent's" if ids else "person's") if commit else "older"
        result = "unknown" if not answer.is_known else "right" if answer.turn_id in ids else "wrong"
        told[f"{whose} {result}"] += 1
        if arguments.show and result == "wrong":
            line = question.lines[question.number].strip()[:80]
            print(f"{whose} {result}: {question.path}:{question.number + 1} {line!r}, told {answer.turn_id}")
    of_agents = sum(count for name, count in told.items() if name.startswith("agent"))
    wrong = sum(count for name, count in told.items() if name.endswith("wrong"))
    times.sort()
    print(dict(sorted(told.items())))
    print(
        f"agents' lines right {told[RIGHT] / max(of_agents, 1):.1%} of {of_agents}; "
        f"wrong {wrong / max(sum(told.values()), 1):.1%} of {sum(told.values())}; "
        f"p50 {times[len(times) // 2] * 1000:.0f} ms, p95 {times[len(times) * 95 // 100] * 1000:.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("repository", type=Path)
    parser.add_argument("--commits", type=int, default=400, help="so many of the last commits (default: 400)")
    parser.add_argument("--share", type=float, default=0.7, help="how many of them agents made (default: 0.7)")
    parser.add_argument("--lines", type=int, default=300, help="so many lines are asked for (default: 300)")
    parser.add_argument("--lines-of-file", type=int, default=10, help="so many of one file (default: 10)")
    parser.add_argument("--endings", nargs="+", default=[".py", ".js", ".ts", ".go", ".md", ".sql"])
    parser.add_argument("--formatter", help="a command that formats all files")
    parser.add_argument("--squash", type=int, default=1, help="so many commits were squashed to one each time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print wrong answers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "project"
        subprocess.run(["git", "clone", "-q", str(arguments.repository), str(folder)], check=True)
        workspace = open_workspace(Settings(home=Path(home) / "home", model="words"))
        asyncio.run(evaluate(folder, workspace, arguments))


if __name__ == "__main__":
    main()
