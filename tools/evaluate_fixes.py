# ruff: noqa: E501 (error texts are long lines)
"""Measure `palaver fix` with sessions whose errors have known fixes: `tools/evaluate_fixes.py`.

Seeded sessions of four programs in some projects have errors that were ended by commands, by edits, by a person, or by
nothing. Between are other errors, unrelated edits, attempts that failed, and calls that only look. Then the errors come
again, with other paths and numbers, in the same and in other projects.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.store.bus import HUMAN, open_workspace

from palaver.importers import facts_of_call, tool_call
from palaver.model.sessions import Owner, Turn
from palaver.operations.fixes.fixes import FindFix, KnownFix, find_fix
from palaver.operations.sessions.owners import owner_or_new
from palaver.settings import Settings
from palaver.store.sessions import sessions
from palaver.store.workspaces import Workspace

Dice = random.Random
PROGRAMS = ("claude-code", "codex", "gemini-cli", "opencode")
PROJECTS = ("github.com/acme/shop", "github.com/acme/ledger", "github.com/acme/maps", "/home/somebody/notes")
WORDS = [
    "amber",
    "basil",
    "cedar",
    "delta",
    "ember",
    "fable",
    "grove",
    "hazel",
    "indigo",
    "jolly",
    "karma",
    "lemon",
    "mango",
    "nylon",
    "olive",
    "pearl",
    "quartz",
    "river",
]


@dataclass(frozen=True)
class Kind:
    """A kind of error: the command, its output with {name}, {path}, {number}, and what ends it."""

    command: str
    output: str
    fix: str
    is_general: bool = True
    is_edit: bool = False


PYTHON = (
    'Traceback (most recent call last):\n  File "{path}/app/{other}.py", line {number}, in <module>\n    import x\n'
)
KINDS = (
    Kind("pytest -q", PYTHON + "ModuleNotFoundError: No module named '{name}'", "uv sync --extra {name}"),
    Kind("python -m app.main", PYTHON + "ImportError: cannot import name '{name}' from 'lib' ({path}/lib.py)", "pip install {name}lib"),
    Kind("npm test", "FAIL src/{other}.test.ts\n  Cannot find module '{name}' from 'src/{other}.ts'\n    at Resolver.x ({path}/a.js:{number}:3)", "npm install {name}"),
    Kind("npx tsc --noEmit", "src/{other}.ts({number},5): error TS2307: Cannot find module '{name}' or its types.\n\nFound 1 error.", "npm i -D @types/{name}"),
    Kind("cargo build", "error: failed to run custom build command for `{name}-sys v0.{number}.1`\n--- stderr\ncould not find system library '{name}'", "apt-get install -y lib{name}-dev"),
    Kind("pytest tests/db", "E   psycopg.OperationalError: connection to server at \"127.0.0.1\", port {number} failed: Connection refused {name}\n1 failed in {number}s", "docker compose up -d {name}"),
    Kind("npx playwright test", "Error: browserType.launch: Executable doesn't exist at {path}/.cache/{name}-{number}/chrome\n", "npx playwright install {name}"),
    Kind("make lint", "/bin/sh: 1: {name}: not found\nmake: *** [Makefile:{number}: lint] Error 127", "pipx install {name}"),
    Kind("go build ./...", "{other}.go:{number}:2: no required module provides package example.com/{name}; to add it:\n\tgo get example.com/{name}", "go mod tidy"),
    Kind("git status", "fatal: {name}: no submodule mapping found in .gitmodules for path 'vendor/{name}'", "git submodule update --init"),
    Kind("make test", "Error: the generated file {path}/gen/{name}.pb.go is out of date", "make {name}-proto", is_general=False),
    Kind("python manage.py test", "django.db.utils.OperationalError: no such table: {name}_items", "python manage.py migrate {name}", is_general=False),
    Kind("./run.sh", "KeyError: '{name}_URL'\n", "cp {name}.env.example .env", is_general=False),
    Kind("pytest tests/unit", PYTHON + "TypeError: {name}() got an unexpected keyword argument 'limit'", "src/{name}.py", False, True),
    Kind("npm run build", "src/{name}.ts({number},9): error TS2339: Property '{name}' does not exist on type 'Row'.", "src/{name}.ts", False, True),
    Kind("cargo test", "error[E0425]: cannot find function `{name}` in this scope\n --> src/lib.rs:{number}:5", "src/{name}.rs", False, True),
)  # fmt: skip
LOOKS = (
    "ls -la",
    "git status --short",
    "cat pyproject.toml",
    "rg -n import src",
    "pip list",
    "git log -3",
    "env | sort",
)
NOISE = ("npm run format", "python scripts/report.py", "uv lock", "docker compose pull", "make docs")


@dataclass
class Case:
    kind: Kind
    name: str
    project: str
    story: str

    def output(self, dice: Dice) -> str:
        path = (
            f"/{dice.choice(['home', 'Users', 'srv'])}/{dice.choice(WORDS)}/{dice.choice(WORDS)}-{dice.randrange(99)}"
        )
        other, number = dice.choice(WORDS), dice.randrange(2, 9_999)
        return self.kind.output.format(name=self.name, path=path, number=number, other=other)

    @property
    def fix(self) -> str:
        return self.kind.fix.format(name=self.name)


class Session:
    """A session as a program records it."""

    def __init__(self, dice: Dice, case: Case, at: datetime) -> None:
        self.dice, self.case, self.at, self.program = dice, case, at, dice.choice(PROGRAMS)
        self.said: list[tuple[str, str, bool, str]] = [("user", f"work on {dice.choice(WORDS)}", False, "")]

    def call(self, tool: str, arguments: object, result: str, failed: bool = False) -> None:
        id = f"c{len(self.said)}"
        self.said += [("tool", tool_call(tool, arguments, "short"), False, id), ("tool", result, failed, id)]

    def shell(self, command: str, output: str, code: int = 0) -> None:
        dice, tool, key = self.dice, "Bash", "command"
        if dice.random() < 0.4:
            command = f"cd /home/{dice.choice(WORDS)}/app && {command}"
        if dice.random() < 0.3 and code == 0:
            command += " 2>&1 | tail -20"
        result, failed = f"Exit code {code}\n{output}" if code else output, code != 0
        if self.program == "codex":
            tool, key = "exec_command", "cmd"
            result = f"Chunk ID: {dice.randrange(10**6):x}\nWall time: 0.{dice.randrange(99)} seconds\nProcess exited with code {code}\nOutput:\n{output}"
        elif self.program == "gemini-cli":
            tool, failed = "run_shell_command", False
            result = f"Output: {output}\nExit Code: {code}" if code else f"Output: {output}"
        elif self.program == "opencode":
            tool = "bash"
        self.call(tool, {key: command}, result, failed)

    def fails(self) -> None:
        self.shell(self.case.kind.command, self.case.output(self.dice), self.dice.choice((1, 1, 2)))

    def succeeds(self) -> None:
        self.shell(self.case.kind.command, f"{self.dice.randrange(1, 99)} passed in {self.dice.random():.2f}s")

    def looks(self) -> None:
        for _ in range(self.dice.randrange(3)):
            self.shell(self.dice.choice(LOOKS), "some output\n" * self.dice.randrange(1, 30))
        if self.dice.random() < 0.3:
            self.said.append(("assistant", "I see what is wrong. I try another way.", False, ""))

    def edits(self, path: str) -> None:
        told = {
            "file_path": f"/home/x/app/{path}",
            "old_string": "a = 1",
            "new_string": f"a = {self.dice.randrange(99)}",
        }
        self.call("Edit", told, "The file was updated.")

    def fixes(self, fix: str | None = None) -> None:
        if self.case.kind.is_edit and fix is None:
            self.edits(self.case.fix)
        elif self.dice.random() < 0.2:
            self.shell(f"{fix or self.case.fix} && {self.case.kind.command}", "9 passed")
        else:
            self.shell(fix or self.case.fix, "done")

    def tell(self) -> None:
        """The story of the case."""
        story = self.case.story
        self.looks()
        self.fails()
        for _ in range(self.dice.randrange(2)):
            self.fails()  # the same error again
        self.looks()
        match story:
            case "alone" | "person":
                if story == "person":
                    self.said.append(("user", "I have started it, try again", False, ""))
                return self.succeeds()
            case "came back":
                self.fixes(self.dice.choice(NOISE))
                self.succeeds()
                return self.fails()
            case "never":
                return self.fixes(self.dice.choice(NOISE))
            case "wrong first":
                self.shell(self.dice.choice(NOISE), "done")
                self.fails()
            case "unrelated edits":
                self.edits(f"docs/{self.dice.choice(WORDS)}.md")
            case "unrelated command":
                self.shell(self.dice.choice(NOISE), "done")
            case "another error":
                self.fixes()
                self.shell(self.case.kind.command, f"AssertionError: expected {self.dice.choice(WORDS)} rows", 1)
                self.edits("src/rows.py")
                return self.succeeds()
        self.fixes()
        self.looks()
        self.succeeds()


STORIES = (
    "plain", "plain", "plain", "plain", "unrelated edits", "unrelated edits", "wrong first", "wrong first", "another error",
    "unrelated command", "came back", "never", "alone", "alone", "person",
)  # fmt: skip
WITHOUT_FIX = ("came back", "never", "alone", "person")


def make_cases(dice: Dice, count: int) -> list[tuple[Case, list[Session]]]:
    """Each error has one to four sessions; about a fifth of them has a story of its own each time."""
    found = []
    at = datetime.now(UTC) - timedelta(days=90)
    for n in range(count):
        name = "".join(dice.sample(WORDS, 2)) + "".join(chr(ord("a") + int(digit)) for digit in str(n))
        case = Case(dice.choice(KINDS), name, dice.choice(PROJECTS), dice.choice(STORIES))
        told = []
        for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 4))):
            story = dice.choice(STORIES) if dice.random() < 0.3 else case.story
            session = Session(
                dice, Case(case.kind, case.name, case.project, story), at + timedelta(minutes=dice.randrange(120_000))
            )
            session.tell()
            told.append(session)
        found.append((case, told))
    return found


async def record(workspace: Workspace, cases: list[tuple[Case, list[Session]]]) -> None:
    owners: dict[str, Owner] = {}
    for program in PROGRAMS:
        owners[program] = await workspace.change(lambda change, name=program: owner_or_new(change, HUMAN, name))
    for number, session in enumerate(session for _, some in cases for session in some):
        owner, id = owners[session.program], f"session-{number}"
        turns = [
            Turn(
                f"{id}-{n}", id, owner.id, role, text, session.at + timedelta(seconds=9 * n), session.at,
                session.case.project, session.program, facts_of_call(call or None, is_error=failed),
            )
            for n, (role, text, failed, call) in enumerate(session.said)
        ]  # fmt: skip
        await workspace.change(lambda change, owner=owner, turns=turns: sessions.put(change, owner, turns))


def is_right(answer: KnownFix, case: Case) -> bool:
    if case.kind.is_edit:
        return not answer.commands and [edit.partition(" ")[0] for edit in answer.edits] == [Path(case.fix).name]
    return list(answer.commands) == [case.fix]


async def evaluate(workspace: Workspace, arguments: argparse.Namespace) -> None:
    dice = random.Random(arguments.seed)
    cases = make_cases(dice, arguments.errors)
    await record(workspace, cases)
    counted: dict[str, Counter[str]] = {
        "all": Counter(),
        "here": Counter(),
        "elsewhere": Counter(),
        "never seen": Counter(),
    }
    times: list[float] = []

    async def asked(case: Case, project: str, place: str, has_fix: bool, error: str) -> None:
        began = time.perf_counter()
        answer: KnownFix = await find_fix.perform(workspace, HUMAN, FindFix(error=error, project=project))
        times.append(time.perf_counter() - began)
        result = "unknown" if not answer.is_known else "right" if has_fix and is_right(answer, case) else "wrong"
        for group in (place, "all", case.story) if place != "never seen" else (place, "all"):
            counted.setdefault(group, Counter()).update([result, "fixed" if has_fix else "not fixed"])
        if arguments.show and result == "wrong":
            print(f"{place}, {case.story}: {error[-80:]!r} is {case.fix!r}, told {answer.commands or answer.edits}")

    for case, told in cases:
        ended = any(session.case.story not in WITHOUT_FIX for session in told)
        await asked(case, case.project, "here", ended, case.output(dice))
        other = dice.choice([one for one in PROJECTS if one != case.project])
        if dice.random() < 0.5:
            await asked(case, other, "elsewhere", ended and case.kind.is_general, case.output(dice))
        if dice.random() < 0.3:
            unseen = Case(case.kind, case.name + "x", case.project, "")
            await asked(unseen, case.project, "never seen", False, unseen.output(dice))
    print(f"{arguments.errors} errors, {sum(len(told) for _, told in cases)} sessions, seed {arguments.seed}")
    for group, found in counted.items():
        fixed, total = found["fixed"], found["fixed"] + found["not fixed"]
        right, wrong = found["right"] / max(fixed, 1), found["wrong"] / max(total, 1)
        print(f"{group:18} right {right:6.1%} of {fixed:5}   wrong {wrong:6.2%} of {total:5}")
    times.sort()
    print(f"p50 {times[len(times) // 2] * 1000:.0f} ms, p95 {times[len(times) * 95 // 100] * 1000:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--errors", type=int, default=300, help="so many different errors (default: 300)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print wrong answers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        workspace = open_workspace(Settings(home=Path(home) / "home", model="words"))
        asyncio.run(evaluate(workspace, arguments))


if __name__ == "__main__":
    main()
