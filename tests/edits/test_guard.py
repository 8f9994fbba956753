"""`palaver claim` in a folder, and `palaver guard`: git refuses to commit files that another agent holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Engine
from tests.helpers import Server, start_server, word

SHELL = """
import json, subprocess, sys
for line in sys.stdin:
    command, folder = json.loads(line)
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
"""


@pytest.fixture(scope="module")
def place(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_server(tmp_path_factory.mktemp(f"guard-{engine.name}"), PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / word("repo-")
    (root / "src/export").mkdir(parents=True)
    for name in ("src/export/csv.py", "src/other.py", "[id].tsx"):
        (root / name).write_text("1\n")
    for command in (
        "git init -q -b main",
        "git config user.email ann@example.org",
        "git config user.name Ann",
        f"git commit -q --allow-empty -m {word()}",
        "git worktree add -q -b feature ../feature",
    ):
        subprocess.run(command.split(), cwd=root, check=True)
    return root


class Somebody:
    """Runs commands in a shell: a person, or a coding agent whose hooks have reported."""

    def __init__(self, server: Server, program: str | None = None, folder: Path | None = None) -> None:
        env = {name: value for name, value in server.env.items() if not name.startswith(("CLAUDE", "CODEX"))}
        env |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PALAVER_HOOK_SECONDS": "30"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SHELL], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if program:
            given = json.dumps({"session_id": word("session-"), "cwd": str(folder)})
            self.run(f"echo '{given}' | palaver hook session-start --client {program}", folder or Path())

    def run(self, command: str, folder: Path) -> tuple[int, str, str]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps([command, str(folder)]) + "\n")
        self.process.stdin.flush()
        code, out, err = json.loads(self.process.stdout.readline())
        return code, out, err

    def do(self, command: str, folder: Path) -> str:
        code, out, err = self.run(command, folder)
        assert code == 0, err
        return out

    def lists(self, folder: Path) -> list[dict[str, Any]]:
        return list(json.loads(self.do("palaver claims --json", folder))["claims"])

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def person(place: Server) -> Iterator[Somebody]:
    person = Somebody(place)
    yield person
    person.end()


@pytest.fixture
def codex(place: Server, repository: Path) -> Iterator[Somebody]:
    agent = Somebody(place, "codex", repository)
    yield agent
    agent.end()


@pytest.fixture
def gemini(place: Server, repository: Path) -> Iterator[Somebody]:
    agent = Somebody(place, "gemini-cli", repository.parent / "feature")
    yield agent
    agent.end()


def test_a_commit_of_files_that_another_agent_holds_is_refused(
    person: Somebody, codex: Somebody, gemini: Somebody, repository: Path
):
    feature = repository.parent / "feature"
    person.do("palaver guard install", feature)
    codex.do("palaver claim export --because 'bump the version'", repository / "src")
    (feature / "src/export").mkdir(parents=True)
    for root in (repository, feature):
        (root / "src/export/csv.py").write_text(word())
        (root / "notes.md").write_text(word())
    for who in (gemini, person):
        who.do("git add -A", feature)
        code, _, said = who.run("git commit -m mine", feature)
        assert code != 0
        assert f"Codex in {repository.name} holds src/export/** until " in said
        assert "(bump the version): src/export/csv.py\n" in said
        assert "notes.md" not in said
        assert "git commit --no-verify" in said
    gemini.do("git reset -q && git add notes.md && git commit -m mine", feature)
    codex.do("git add -A && git commit -m mine", repository)  # its own claim
    codex.do("palaver release --all", repository)
    gemini.do("git add -A && git commit -m mine", feature)


def test_a_commit_with_files_named_is_checked_for_these_only(person: Somebody, codex: Somebody, repository: Path):
    person.do("git add -A && git commit -q -m all && palaver guard install", repository)
    codex.do("palaver claim src/export", repository)
    (repository / "src/export/csv.py").write_text(word())
    (repository / "src/other.py").write_text(word())
    person.do("git add -A", repository)
    person.do("git commit -m one src/other.py", repository)
    assert person.run("git commit -m two", repository)[0] != 0
    assert person.run("git rm -q -f src/export/csv.py && git commit -m two", repository)[0] != 0
    (repository / "palaver.toml").write_text("claims = false\n")
    person.do("git commit -m two", repository)


def test_the_commit_goes_on_if_palaver_is_away(person: Somebody, repository: Path, tmp_path: Path):
    person.do("palaver guard install", repository)
    code, _, said = person.run("git add -A && PALAVER_URL=http://127.0.0.1:9 git commit -m all", repository)
    assert code == 0
    assert said.startswith("palaver: The commit was not checked: ")  # no server answers, or not in time


@pytest.mark.parametrize(
    "before", [None, "#!/bin/sh\n# Made by me\necho mine >&2\n", "#!/usr/bin/env bash\nset -e\necho mine >&2"]
)
def test_install_keeps_the_hook_there_is_and_remove_gives_it_back(
    person: Somebody, repository: Path, before: str | None
):
    hook = repository / ".git/hooks/pre-commit"
    if before:
        hook.write_text(before)
        hook.chmod(0o755)
    for _ in range(2):
        person.do("palaver guard install", repository)
    code, _, said = person.run("git add -A && git commit -m all", repository)
    assert (code, said) == (0, "mine\n" if before else "")
    person.do("palaver guard remove", repository.parent / "feature")
    assert (hook.read_text() if hook.exists() else None) == before
    assert "palaver is not in" in person.do("palaver guard remove", repository)


def test_install_says_how_to_chain_hooks_that_it_cannot_change(person: Somebody, repository: Path):
    hook = repository / ".git/hooks/pre-commit"
    hook.write_text("#!/usr/bin/env python3\nprint(1)\n")
    hook.chmod(0o755)
    code, _, said = person.run("palaver guard install", repository)
    assert code != 0
    assert "is no shell script" in said
    assert hook.read_text() == "#!/usr/bin/env python3\nprint(1)\n"
    person.do("git config core.hooksPath .husky", repository)
    assert (
        "(core.hooksPath). Add to pre-commit there: palaver guard check"
        in person.run("palaver guard install", repository)[2]
    )


def test_claims_in_a_shell_are_those_of_its_agent_and_patterns_start_in_the_folder(
    person: Somebody, codex: Somebody, repository: Path
):
    codex.do("palaver claim '*.py' ./export ../'[id].tsx' --for 1h --because why", repository / "src")
    person.do("palaver claim docs --shared", repository)
    found = person.lists(repository.parent / "feature")
    assert [(one["holder"], one["pattern"], one["kind"]) for one in found] == [
        (f"Codex in {repository.name}", "src/*.py", "exclusive"),
        (f"Codex in {repository.name}", "src/export/**", "exclusive"),
        (f"Codex in {repository.name}", "[id].tsx", "exclusive"),
        ("human", "docs", "shared"),
    ]
    for outside in ("../x", "/etc/passwd", "src/../../x"):
        code, _, said = codex.run(f"palaver claim {outside}", repository)
        assert (code, "is outside of the project" in said) == (2, True)
    codex.do("palaver release 'src/*.py'", repository)
    (docs,) = [one for one in person.lists(repository) if one["pattern"] == "docs"]
    assert "let a person end the claim" in codex.run(f"palaver release {docs['claim_id']}", repository)[2]
    person.do("palaver release --all", repository)
    assert [one["pattern"] for one in person.lists(repository)] == ["src/export/**", "[id].tsx"]
    person.do(f"palaver release {person.lists(repository)[0]['claim_id']}", repository)
    codex.end()
    assert person.lists(repository) == []


@pytest.mark.parametrize("time", ["0m", "soon", "5", "2y"])
def test_a_bad_time_is_refused(person: Somebody, repository: Path, time: str):
    code, _, said = person.run(f"palaver claim x --for {time}", repository)
    assert (code, "is not a duration" in said) == (2, True)


def test_private_projects_are_not_claimed(person: Somebody, repository: Path):
    (repository / ".palaver-private").touch()
    assert "kept out of palaver" in person.run("palaver claim x", repository)[2]
