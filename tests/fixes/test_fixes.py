"""What ended an error is told when the same error comes again; to whom, and when not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.catchup.test_briefing_choice import Project
from tests.conftest import Engine
from tests.fixes.sessions import bash, codex, edit, ended_by, module, no_module
from tests.helpers import Mcp, Server, start_server, word
from tests.tokens import count_tokens


@pytest.fixture(scope="module")
def place(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_server(tmp_path_factory.mktemp(f"fix-{engine.name}"), PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture
def api(place: Server) -> Iterator[httpx.Client]:
    with place.client() as client:
        yield client


@pytest.fixture
def project(api: httpx.Client) -> Project:
    return Project(api)


def ask(project: Project, error: str) -> dict[str, Any]:
    answer = project.api.post("/api/fix", json={"error": error, "project": project.path})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def fix_of(project: Project, error: str) -> list[str] | None:
    told = ask(project, error)
    return [*told.get("commands", ()), *told.get("edits", ())] if told["is_known"] else None


def test_the_command_that_ended_an_error_is_told_with_its_session(project: Project):
    name = module()
    project.session(("user", "run the tests"), *ended_by("uv sync --extra dev", no_module(name)))
    for _ in range(2):
        project.session(
            *ended_by("uv sync --extra dev", no_module(name, "bob", 44), "python -m pytest"), agent="claude-code"
        )
    told = ask(project, no_module(name, "eve", 7))
    assert told["commands"] == ["uv sync --extra dev"]
    assert told["count"] == 3
    assert "Codex had this error today; `uv sync --extra dev` ended it (2 times since)." in told["text"]
    assert project.api.get("/api/knowledge/open", params={"uri": told["uri"]}).status_code == 200
    assert count_tokens(told["text"]) <= 150


def test_the_same_error_in_the_words_of_another_program(project: Project):
    name = module()
    failed = f"Chunk ID: 1f\nProcess exited with code 1\nOutput:\nModuleNotFoundError: No module named '{name}'"
    project.session(
        *codex("cd /src/app && python load.py 2>&1 | tail -3", failed),
        *codex("pip install " + name, "Process exited with code 0"),
        *codex("python load.py", "Process exited with code 0\nloaded"),
    )
    assert fix_of(project, no_module(name)) == [f"pip install {name}"]


@pytest.mark.parametrize("later", ["came back", "alone", "never", "tried"])
def test_what_did_not_end_it_is_not_told(project: Project, later: str):
    name = module()
    failed, install = bash("pytest", no_module(name)), bash("uv sync", "done")
    ends = {
        "came back": [*failed, *install, *bash("pytest", "1 passed"), *failed],
        "alone": [*failed, *bash("ls", "a"), *bash("pytest", "1 passed")],
        "never": [*failed, *install],
        "tried": [*failed, *install, *failed],
    }
    project.session(*ends[later])
    assert fix_of(project, no_module(name)) is None


def test_unrelated_edits_in_between_do_not_hide_the_command(project: Project):
    name = module()
    between = [*edit("/src/README.md", "a", "b"), *bash("git status", "clean")]
    project.session(*bash("pytest", no_module(name)), *between, *bash("uv sync", "ok"), *bash("pytest", "1 passed"))
    assert fix_of(project, no_module(name)) is None  # it may have been the edit
    project.session(*ended_by("uv sync", no_module(name)))
    assert fix_of(project, no_module(name)) == ["uv sync"]


def test_an_edit_is_told_by_its_file_and_one_line_in_its_own_project_only(project: Project, api: httpx.Client):
    name = module()
    changed = edit("/src/app/load.py", f"import {name}", f"import {name}_next")
    project.session(*bash("pytest", no_module(name)), *changed, *bash("pytest", "1 passed"))
    assert fix_of(project, no_module(name)) == [f"load.py (`import {name}_next`)"]
    assert fix_of(Project(api), no_module(name)) is None


def test_another_project_hears_only_of_commands_that_mean_the_same_everywhere(project: Project, api: httpx.Client):
    """A stranger's repository may print any error to learn what was run elsewhere."""
    stranger = Project(api)
    secret = [
        "./scripts/deploy.sh", "psql -h db.internal", "pip install -r requirements.txt", "make bootstrap",
        "pip install --index-url https://ann:pw@pypi.internal/simple x", "npm install @acme/ledger", "TOKEN=abc uv run x",
        "npm config set //registry/:_authToken abc", "docker compose -f ops/prod.yml up -d",
    ]  # fmt: skip
    for command in secret:
        name = module()
        project.session(*ended_by(command, no_module(name)))
        assert fix_of(stranger, no_module(name)) is None, command
    name = module()
    project.session(*ended_by("uv sync --extra dev", no_module(name)))
    told = ask(stranger, no_module(name))
    assert told["commands"] == ["uv sync --extra dev"]
    assert f"in {project.path.rpartition('/')[2]};" in told["text"]


def test_a_command_with_a_secret_is_never_told(project: Project):
    for command in (
        "pip install x --token abcdef",
        "git pull https://ann:pw@git.internal/x",
        "npm login ghp_" + "a" * 36,
    ):
        name = module()
        project.session(*ended_by(command, no_module(name)))
        assert fix_of(project, no_module(name)) is None, command


def test_an_agent_hears_nothing_of_sessions_that_it_may_not_read(project: Project, place: Server):
    name = module()
    project.session(*ended_by("uv sync --extra dev", no_module(name)))
    with place.client() as client:
        mcp = Mcp(client, "/mcp?tools=all")
        mcp.call("bus_connect", thread_name=word(), display_name=word("stranger-"))
        told = mcp.ask("tools/call", name="fix", arguments={"error": no_module(name), "project": project.path})
        assert told["content"][0]["text"].startswith("Unknown.")
    assert fix_of(project, no_module(name)) == ["uv sync --extra dev"]


def test_what_was_deleted_is_gone_at_once(project: Project):
    name = module()
    id = project.session(*ended_by("uv sync", no_module(name)))
    assert fix_of(project, no_module(name)) == ["uv sync"]
    assert project.api.delete(f"/api/v1/agents/codex/sessions/{id}").status_code == 200
    assert fix_of(project, no_module(name)) is None


def test_a_fix_that_is_marked_wrong_is_never_told_again(project: Project):
    name = module()
    project.session(*ended_by("uv sync", no_module(name)))
    listed = project.api.get("/api/fixes", params={"project": project.path}).json()["fixes"]
    known = next(one for one in listed if name in one["error"])
    assert known["commands"] == ["uv sync"]
    assert project.api.post(f"/api/fixes/{known['fix_id']}/wrong").status_code == 200
    assert fix_of(project, no_module(name)) is None
    project.session(*ended_by("uv sync", no_module(name)))
    assert fix_of(project, no_module(name)) is None
    listed = project.api.get("/api/fixes", params={"project": project.path}).json()["fixes"]
    assert name not in str(listed)


def test_a_loop_of_the_same_error_does_not_hide_the_session_that_ended_it(project: Project):
    name = module()
    project.session(*ended_by("uv sync", no_module(name)))
    project.session(*(turn for _ in range(60) for turn in bash("pytest", no_module(name))), agent="claude-code")
    assert fix_of(project, no_module(name)) == ["uv sync"]


def test_the_commands(project: Project, place: Server, tmp_path: Any):
    name = module()
    project.session(*ended_by("uv sync --extra dev", no_module(name)))

    def palaver(*words: str, given: str = "") -> str:
        command = [sys.executable, "-m", "palaver", words[0], "--url", place.url, *words[1:]]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=True, cwd=tmp_path).stdout

    assert "`uv sync --extra dev` ended it" in palaver("fix", given="x\n" * 3_000_000 + no_module(name))
    failing = f"raise ModuleNotFoundError(\"No module named '{name}'\")"
    assert "`uv sync --extra dev` ended it" in palaver(
        "fix", "--project", project.path, "--", sys.executable, "-c", failing
    )
    assert palaver("fix", "--", sys.executable, "-c", "pass") == ""
    id = next(line.split()[0] for line in palaver("fixes").splitlines() if name in line)
    palaver("fixes", "wrong", id)
    assert palaver("fix", given=no_module(name)).startswith("Unknown.")
