"""Why a line is there: the edit that wrote it, the request before it, what was decided and said later."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.catchup.test_briefing_choice import Project
from tests.conftest import Engine
from tests.helpers import Mcp, Server, eventually, start_server, started_with, word
from tests.importers.samples import answered, jsonl, tool_use, typed

PATH = "src/export.py"
OLD = ["def export(rows):", "    for row in rows:", "        write(row)", "    return len(rows)", ""]
NEW = [
    "def export(rows):",
    "    for row in rows:",
    "        write(row, encoding='utf-8-sig')",
    "    return len(rows)",
    "",
]


@pytest.fixture(scope="module")
def place(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_server(tmp_path_factory.mktemp(f"why-{engine.name}"), PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture
def api(place: Server) -> Iterator[httpx.Client]:
    with place.client() as client:
        yield client


@pytest.fixture
def project(api: httpx.Client) -> Project:
    return Project(api)


def claude(path: str, old: list[str], new: list[str]) -> str:
    told = {"file_path": f"/home/ann/app/{path}", "old_string": "\n".join(old), "new_string": "\n".join(new)}
    return f"[tool Edit] {json.dumps(told)}"


def codex(path: str, old: list[str], new: list[str]) -> str:
    lines = [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    patch = "\n".join(
        ["*** Begin Patch", "*** Update File: README.md", "+Exports rows.", f"*** Update File: {path}", *lines]
    )
    return f"[tool apply_patch] {json.dumps({'input': patch + chr(10) + '*** End Patch'})}"


def opencode(path: str, old: list[str], new: list[str]) -> str:
    told = {"filePath": path, "oldString": "\n".join(old), "newString": "\n".join(new)}
    return f"[tool edit] {json.dumps(told)}"


def written(path: str, lines: list[str]) -> str:
    return f"[tool Write] {json.dumps({'file_path': path, 'content': chr(10).join(lines)})}"


def ask(project: Project, lines: list[str], number: int, path: str = PATH, **more: Any) -> dict[str, Any]:
    about = {"path": path, "line": lines[number], "before": lines[:number], "after": lines[number + 1 :]}
    answer = project.api.post("/api/why", json={**about, "project": project.path, **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def who(project: Project, lines: list[str], number: int, path: str = PATH, **more: Any) -> str | None:
    """The session that wrote a line."""
    return ask(project, lines, number, path, **more).get("session_id")


@pytest.mark.parametrize("edit", [claude, codex, opencode])
def test_the_edit_its_session_and_the_request_are_told(project: Project, edit: Any):
    id = project.session(
        ("user", "Umlauts are broken in Excel. Write the export with a BOM, please."),
        ("assistant", "We decided to keep UTF-8."),
        ("user", "yes, go on"),
        ("tool", edit(PATH, [OLD[2]], [NEW[2]])),
        ("tool", "ok"),
    )
    project.session(("user", "Rename it"), ("tool", edit("src/other.py", ["a = 1"], ["b = 1"])), agent="claude-code")
    told = ask(project, NEW, 2)
    assert (told["is_known"], told["session_id"], told["program"]) == (True, id, "Codex")
    assert told["request"]["text"].startswith("Umlauts are broken in Excel.")
    assert "Asked for on" in told["text"]
    assert project.api.get("/api/knowledge/open", params={"uri": told["uri"]}).status_code == 200
    assert who(project, NEW, 1) is None  # it was there before


def test_the_first_one_that_wrote_it_counts_until_it_is_removed(project: Project):
    first = project.session(("user", "make it"), ("tool", written(PATH, OLD)))
    project.session(("user", "write all of it again"), ("tool", written(PATH, [*OLD, "# the end of the file"])))
    assert who(project, OLD, 1) == first
    project.session(("user", "remove it"), ("tool", claude(PATH, OLD[:3], [OLD[0]])))
    again = project.session(("user", "put it back"), ("tool", claude(PATH, [OLD[0]], OLD[:3])))
    assert who(project, OLD, 1) == again


def test_an_edit_that_failed_wrote_nothing(project: Project):
    project.session(("user", "do it"), ("tool", claude(PATH, [OLD[2]], [NEW[2]])), ("tool", "Error: not found in file"))
    assert who(project, NEW, 2) is None
    right = project.session(("user", "again"), ("tool", claude(PATH, [OLD[2]], [NEW[2]])), ("tool", "ok"))
    assert who(project, NEW, 2) == right


def test_formatted_moved_and_renamed_lines_are_found(project: Project):
    block = [
        "def connect(host, port, timeout_s=5):",
        '    """Connect, and say hello."""',
        "    connection = open_socket(host, port, timeout=timeout_s)",
        "    connection.send(b'hello, server')",
        "    return connection",
    ]
    id = project.session(("user", "connect"), ("tool", claude("net/connection.py", [], block)))
    formatted = [
        *block[:2],
        "    connection = open_socket(",
        "        host, port,",
        "        timeout=timeout_s,",
        "    )",
        *block[3:],
    ]
    path = "net/connection.py"
    assert who(project, [line.replace("'", '"') for line in block], 3, path) == id
    assert who(project, formatted, 4, path) == id
    assert who(project, block, 2, "lib/sockets.py", old_path=path) == id
    moved = project.session(
        ("user", "move it"), ("tool", codex("lib/socket.py", [], block)), ("tool", codex(path, block, []))
    )
    assert who(project, block, 2, "lib/socket.py") == id != moved


def test_a_line_that_is_in_many_places_is_unknown_rather_than_wrong(project: Project):
    project.session(
        ("user", "do it"), ("tool", written("src/a.py", ["def a():", "    x = 1", "    return x", "", "}"]))
    )
    here = ["def b():", "    y = compute()", "    return x", "}"]
    assert [who(project, here, n, "src/b.py") for n in range(4)] == [None] * 4
    assert who(project, ["import os", "", "}", "x"], 2, "src/a.py") is None
    assert [who(project, [line], 0, "src/a.py") for line in ("}", "    x = 1", "    return x")] == [None] * 3


def test_edits_after_the_commit_did_not_write_it(project: Project):
    project.session(("user", "do it"), ("tool", claude(PATH, [OLD[2]], [NEW[2]])))
    assert who(project, NEW, 2, until="2020-05-01T10:00:00Z") is None


def test_the_decision_on_the_bus_and_what_was_said_later(project: Project):
    name, other = word("export_"), word("other_")
    lines = [f"def {name}(rows, target):", "    return target.write(rows)"]
    thread = project.api.post("/api/threads", json={"topic": word()}).json()["id"]

    def post(content: str) -> None:
        posted = project.api.post(f"/api/threads/{thread}/messages", json={"author": "ann", "content": content})
        assert posted.status_code == 201, posted.text

    post(f"We decided that {name} takes the target first. We decided that {other} goes.")
    project.session(("user", "write it"), ("tool", written("src/out.py", lines)))
    post(f"TODO: {name} is slow for large tables.")
    told = ask(project, lines, 0, "src/out.py")
    assert [one["text"] for one in told["decisions"]] == [f"We decided that {name} takes the target first."]
    assert [one["text"] for one in told["later"]] == [f"TODO: {name} is slow for large tables."]
    assert told["later"][0]["by"] == "ann"


def test_a_subagent_works_on_what_its_parent_was_asked(project: Project):
    id = project.session(("user", "Write the export with a BOM in all files"), ("assistant", "I start a subagent."))
    project.session(("user", "Edit export.py"), ("tool", claude(PATH, [OLD[2]], [NEW[2]])), id=f"{id}.agent-1")
    told = ask(project, NEW, 2)
    assert told["session_id"] == f"{id}.agent-1"
    assert told["request"]["text"] == "Write the export with a BOM in all files"


def test_an_imported_session_from_before_palaver_counts(api: httpx.Client):
    id, name = str(uuid4()), word("imported_")
    lines = [f"def {name}(rows):", "    return rows.sorted()"]
    told = {"file_path": "/home/ann/garden/src/beds.py", "content": "\n".join(lines)}
    raw = jsonl(typed("Sort the beds by name, please.", id), answered(tool_use("Write", **told), session=id))
    job = api.post("/api/import", files={"file": (f"{id}.jsonl", raw)}).json()["id"]
    eventually(lambda: api.get(f"/api/import/{job}").json()["status"] == "done")
    about = {"path": "src/beds.py", "line": lines[0], "after": lines[1:]}
    for project in ("garden", "/home/ann/garden"):
        found = api.post("/api/why", json={**about, "project": project}).json()
        assert (found["program"], found["request"]["text"]) == ("Claude Code", "Sort the beds by name, please.")
        assert api.get("/api/knowledge/open", params={"uri": found["uri"]}).status_code == 200


def test_an_agent_hears_of_sessions_it_may_read_only(project: Project, place: Server):
    unique = word("line_")
    lines = [f"def {unique}(rows):", "    return rows", f"{unique} = {unique}(ROWS)"]
    project.session(("user", "do it"), ("tool", written(PATH, lines)))
    given = {"path": PATH, "line": lines[2], "before": lines[:2], "project": project.path}
    with place.client() as client:
        mcp = Mcp(client, "/mcp?tools=all")
        mcp.call("bus_connect", thread_name=word(), display_name=word("stranger-"))
        told = mcp.ask("tools/call", name="why", arguments=given)["content"][0]["text"]
        assert told.startswith("Unknown.")
    assert ask(project, lines, 2)["is_known"]


# The command


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "app"
    (root / "src").mkdir(parents=True)
    for command in (["init", "-q"], ["config", "user.name", "Ann"], ["config", "user.email", "ann@example.com"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


def commit(root: Path, lines: list[str], title: str) -> None:
    (root / PATH).write_text("\n".join(lines))
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    subprocess.run(["git", "commit", "-qm", title], cwd=root, check=True)


def test_the_command_tells_session_and_commit(place: Server, api: httpx.Client, repository: Path):
    project = Project(api)
    commit(repository, OLD, "The beginning")
    commit(repository, NEW, "Excel reads umlauts")
    (repository / PATH).write_text("\n".join(["# not committed", *NEW]))
    project.path = "app"
    project.session(("user", "Write the export with a BOM"), ("tool", claude(PATH, [OLD[2]], [NEW[2]])))
    at, options = f"{repository / PATH}:4", ["--project", "app"]
    done = started_with(place.env, "why", at, *options)
    assert done.returncode == 0, done.stderr
    assert "Written by Codex (Edit) on" in done.stdout
    assert "Asked for on" in done.stdout
    assert "by Ann on" in done.stdout
    assert done.stdout.rstrip().endswith("Excel reads umlauts")
    told = json.loads(started_with(place.env, "why", f"{repository / PATH}:1", *options, "--json").stdout)
    assert (told["is_known"], told["commit"]) == (False, None)


@pytest.mark.parametrize(
    "at, told",
    [("x", "palaver why src/auth.py:42"), ("missing.py:3", "cannot be read"), (f"{PATH}:99", "has 4 lines"), (f"{PATH}:5", "is blank")],
)  # fmt: skip
def test_the_command_says_what_is_wrong(place: Server, repository: Path, at: str, told: str):
    (repository / PATH).write_text("\n".join([*OLD, "x"]) if "99" not in at else "\n".join(OLD))
    done = started_with(place.env, "why", at if ":" not in at else str(repository / at))
    assert done.returncode == 2
    assert told in done.stderr


def test_the_settings_of_the_repository_start_nothing(
    place: Server, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(repository)
    commit(repository, OLD, "The beginning")
    commit(repository, NEW, "Excel reads umlauts")
    ran = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    script.chmod(0o755)
    settings = ("core.fsmonitor", "core.pager", "diff.x.textconv", "diff.x.command", "filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.external", "core.editor", "core.sshCommand")  # fmt: skip
    for name in settings:
        subprocess.run(["git", "config", name, str(script)], cwd=repository, check=True)
    (repository / ".gitattributes").write_text("* diff=x filter=x\n")
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "post-checkout", "pre-auto-gc"):
        (hooks / name).symlink_to(script)
    (repository / "git").symlink_to(script)
    env = {**place.env, "PATH": f".{os.pathsep}{repository}{os.pathsep}{os.environ['PATH']}"}
    done = started_with(env, "why", f"{repository / PATH}:3")
    assert done.returncode == 0, done.stderr
    assert not ran.exists()
    done = started_with({**place.env}, "why", f"{repository / PATH}:3")
    assert "Excel reads umlauts" in done.stdout
    assert not ran.exists()
