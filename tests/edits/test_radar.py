"""The radar: an agent hears before its edit that another one edits the file. The hooks run as programs do run them."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.catchup.test_hooks import Program
from tests.conftest import Engine
from tests.helpers import Server, start_server, word

from palaver.model.people import title_of
from palaver.model.times import now
from palaver.operations.edits.editing import is_committed
from palaver.settings import Settings
from palaver.store.sessions.file_edits import RecentEdit


def git(folder: Path, *words: str) -> None:
    names = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def place(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"radar-{engine.name}")
    with start_server(home, PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository with one commit."""
    root = tmp_path / word("work-")
    root.mkdir()
    git(root, "init")
    (root / "a b.py").write_text("one\ntwo\nthree\nfour\n")
    (root / "unlike others").write_text(root.name)
    git(root, "add", ".")
    git(root, "commit", "-m", "begin")
    return root


class Editor(Program):
    """A coding agent that tells what it edits."""

    def edit(self, path: Path | str, edit: str = "") -> str:
        """Why an edit was stopped, or ''. It is told without the hook's program."""
        told = self.report("edit", edit=edit or str(path), files=[{"path": str(path)}])
        assert (told["decision"] == "go") == (told["text"] == "")
        return str(told["text"])

    def change(self, path: Path) -> None:
        """Edit a file for real."""
        assert self.edit(path) == ""
        path.write_text(word())

    def edit_by_hook(self, path: Path | str, old: str = "two\nthree", tool: str = "", **env: str) -> str:
        arguments: dict[str, Any] = {"file_path": str(path), "old_string": old, "new_string": "x"}
        if self.client == "codex":
            arguments = {"command": f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+x\n*** End Patch"}
        names = {"codex": "apply_patch", "gemini-cli": "replace", "opencode": "edit"}
        made = self.hook("edit", env, tool_name=tool or names.get(self.client, "Edit"), tool_input=arguments)
        if self.client == "opencode":
            return str(made.get("text", ""))
        if self.client == "gemini-cli":
            assert made.get("decision", "deny") == "deny"
            return str(made.get("reason", ""))
        told = made.get("hookSpecificOutput", {})
        assert told.get("permissionDecision", "deny") == "deny"
        return str(told.get("permissionDecisionReason", ""))


CLIENTS = ("claude-code", "codex", "gemini-cli", "opencode")


@pytest.mark.parametrize("client", CLIENTS)
def test_the_second_agent_hears_before_its_edit_who_edits_the_file(place: Server, work: Path, client: str):
    first, second = Editor(place, work, "cursor"), Editor(place, work, client)
    first.hook("prompt", prompt="bump the version to 2.0")
    assert first.edit_by_hook(work / "a b.py") == ""
    (work / "a b.py").write_text("one\nx\nfour\n")
    told = second.edit_by_hook("a b.py", "four")
    assert "- a b.py: cursor-" in told
    assert "(Cursor) edited it now in this folder, lines 2-3, not committed." in told
    assert 'Its task: "bump the version to 2.0' in told
    assert 'Ask with msg_post: "@cursor-' in told
    assert "make the edit again" in told
    assert second.edit_by_hook("a b.py", "four") == "", "the same edit goes through"
    assert f"({title_of(client, None)}) edited it" in first.edit("a b.py")
    assert first.edit("a b.py") == ""


def test_another_edit_of_the_same_turn_is_stopped_too(place: Server, work: Path):
    first, second = Editor(place, work), Editor(place, work, "codex")
    first.change(work / "a b.py")
    with ThreadPoolExecutor() as pool:
        assert all(pool.map(lambda edit: second.edit("a b.py", edit), ["x", "y"]))
    assert [second.edit("a b.py", "x"), Editor(place, work, "codex").edit("a b.py", "x") != ""] == ["", True]


def test_of_two_edits_at_the_same_time_one_is_told(place: Server, work: Path):
    (work / "new.py").write_text("")
    both = [Editor(place, work), Editor(place, work, "codex")]
    with ThreadPoolExecutor() as pool:
        told = list(pool.map(lambda one: one.edit("new.py"), both))
    assert sorted(map(bool, told)) == [False, True]


def test_what_is_committed_is_not_told(place: Server, work: Path):
    first, second = Editor(place, work), Editor(place, work, "codex")
    first.change(work / "a b.py")
    git(work, "commit", "-am", "two")
    assert second.edit("a b.py") == ""
    (work / "a b.py").write_text("changed again by nobody that palaver knows")
    third = Editor(place, work, "gemini-cli")
    assert "codex" in third.edit("a b.py")


def test_a_file_that_was_never_written_is_not_told(place: Server, work: Path):
    assert Editor(place, work).edit("new.py") == ""  # the person then said no
    assert Editor(place, work, "codex").edit("new.py") == ""
    (work / "a b.py").write_text("changed by a person, an hour ago")
    os.utime(work / "a b.py", (1, 1))
    assert Editor(place, work).edit("a b.py") == ""
    assert Editor(place, work, "codex").edit("a b.py") == ""


def test_reading_never_warns(place: Server, work: Path):
    Editor(place, work).change(work / "a b.py")
    second = Editor(place, work, "gemini-cli")
    assert [second.edit_by_hook("a b.py", tool=tool) for tool in ("read_file", "run_shell_command")] == ["", ""]


def test_another_worktree_is_told_once_as_a_likely_conflict(place: Server, work: Path):
    other = work.parent / "feature-x"
    git(work, "worktree", "add", "-b", "feature/x", str(other))
    first, second = Editor(place, work), Editor(place, other, "codex")
    second.change(other / "a b.py")
    told = first.edit("a b.py")
    assert (
        "edited it now in the worktree feature-x (branch feature/x), not committed. A merge conflict is likely." in told
    )
    assert first.edit("a b.py") == ""
    git(other, "commit", "-am", "two")
    assert Editor(place, work, "gemini-cli").edit("a b.py").count("feature-x") == 0


def test_links_and_dots_lead_to_the_same_file(place: Server, work: Path):
    first, second = Editor(place, work), Editor(place, work, "codex")
    (work / "sub").mkdir()
    (work / "link.py").symlink_to(work / "a b.py")
    first.change(work / "a b.py")
    assert "a b.py: " in second.edit("sub/../link.py")


@pytest.mark.parametrize("rule, stopped", [("warn", [True, False]), ("refuse", [True, True]), ("off", [False])])
def test_a_claim_is_told_or_refused_as_the_project_says(place: Server, work: Path, rule: str, stopped: list[bool]):
    (work / "palaver.toml").write_text(f'claims = "{rule}"\n')
    first, second = Editor(place, work), Editor(place, work, "codex")
    with place.client() as api:
        claimed = {"patterns": ["src/**"], "project": str(work), "because": "the export is being rewritten"}
        api.post("/api/claims", json=claimed).raise_for_status()
    told = [second.edit(work / "src" / "new.py") for _ in stopped]
    assert [bool(one) for one in told] == stopped
    if rule != "off":
        assert "holds src/** until" in told[0]
        assert "the export is being rewritten" in told[0]
    assert ("palaver refused this edit" in told[-1]) == (rule == "refuse")
    assert first.edit("docs/new.md") == ""


def test_others_read_in_their_briefing_and_list_who_edits_what(place: Server, work: Path):
    first, second = Editor(place, work), Editor(place, work, "codex")
    first.hook("prompt", prompt="bump the version to 2.0")
    first.change(work / "a b.py")
    said = f"(Claude Code) is editing a b.py in the worktree {work.name} (branch main) since "
    told = second.start()
    assert f"Being edited now:\n- claude-code-{work.name} {said}" in told
    assert "(for: bump the version to 2.0)" in told
    assert "Being edited now:" not in first.start(), "its own edits are no news"
    with place.client() as api:
        (listed,) = api.get("/api/edits", params={"project": str(work)}).raise_for_status().json()["edits"]
        assert said in listed["text"]
        assert {"path": "a b.py", "branch": "main", "task": "bump the version to 2.0"}.items() <= listed.items()
        git(work, "commit", "-am", "two")
        assert api.get("/api/edits", params={"project": str(work)}).json() == {"edits": []}


def test_an_edit_of_a_program_without_hooks_is_told_as_probable(place: Server, work: Path):
    (work / "a b.py").write_text("x")

    def record(agent: str, session: str, tool: str, path: str) -> None:
        turn = {"role": "tool", "content": f'[tool {tool}] {{"file_path": "{path}", "content": "x"}}'}
        with place.client() as api:
            told = turn | {"project": str(work)}
            api.post(f"/api/v1/agents/{agent}/sessions/{session}/messages", json=told).raise_for_status()

    record("windsurf", word(), "Write", str(work / "a b.py"))
    record("windsurf", word(), "Read", str(work / "unlike others"))
    second = Editor(place, work, "codex")
    (work / "unlike others").write_text("y")
    assert "windsurf probably edited it now in this folder" in second.edit("a b.py")
    assert second.edit("unlike others") == ""
    record("codex", second.session, "Write", str(work / "new.py"))  # its hooks have told what it edits
    (work / "new.py").write_text("x")
    assert Editor(place, work).edit("new.py") == ""


def test_an_agent_hears_only_of_agents_whose_sessions_it_may_read(place: Server, work: Path):
    first, second = Editor(place, work), Editor(place, work, "codex")
    first.change(work / "a b.py")
    with place.client() as api:
        level = api.get("/api/sharing").json()["level"]
        api.put("/api/sharing", json={"level": "agent"}).raise_for_status()
        assert (second.edit("a b.py"), "Being edited now" in second.start()) == ("", False)
        api.put("/api/sharing", json={"level": level}).raise_for_status()
    assert "claude-code" in Editor(place, work, "gemini-cli").edit("a b.py")


def test_private_projects_are_never_told(place: Server, work: Path):
    (work / ".palaver-private").write_text("")
    first, second = Editor(place, work), Editor(place, work, "codex")
    first.change(work / "a b.py")
    assert second.edit("a b.py") == ""


def test_files_outside_of_the_project_and_strange_input_do_no_harm(place: Server, work: Path):
    one = Editor(place, work)
    for path in ("/etc/passwd", "../x.py", "x" * 5_000, "a\0b", "\ud800", ""):
        assert one.hook("edit", tool_name="Edit", tool_input={"file_path": path}) == {}
    strange: list[Any] = [{}, {"file_path": 7}, [], None, "x", {"edits": [7]}, {"command": ["*** Begin Patch"]}]
    for arguments in strange:
        assert one.hook("edit", tool_name="Edit", tool_input=arguments) == {}
    patch = "*** Begin Patch\n" + "".join(f"*** Update File: f{n}.py\n+x\n" for n in range(3_000))
    assert one.hook("edit", tool_name="apply_patch", tool_input={"command": patch}) == {}
    binary = work / "picture.png"
    binary.write_bytes(b"\x89PNG\0\xff" * 1_000)
    assert one.edit_by_hook(binary) == ""
    assert "picture.png" in Editor(place, work, "codex").edit(binary)


def test_a_hook_lets_the_edit_go_when_palaver_is_away(tmp_path: Path, work: Path):
    with start_server(tmp_path / "home") as server:
        Editor(server, work).change(work / "a b.py")
        second = Editor(server, work, "codex")
    assert second.edit_by_hook("a b.py") == ""


def test_a_server_elsewhere_hears_the_places_from_the_hook(place: Server, work: Path):
    first, second = Editor(place, work), Editor(place, work, "gemini-cli")
    assert first.edit_by_hook("a b.py", PALAVER_URL=place.url) == ""
    assert second.edit_by_hook("a b.py", PALAVER_URL=place.url) == "", "it is as it was committed"
    (work / "a b.py").write_text("two\nthree")
    third = Editor(place, work, "opencode").edit_by_hook("a b.py", PALAVER_URL=place.url)
    assert third.count("in this folder, lines 2-3, not committed") == 2
    (work / ".palaver-private").write_text("")
    assert Editor(place, work, "codex").edit_by_hook("a b.py", PALAVER_URL=place.url) == ""


def test_a_server_that_others_reach_does_not_look_at_files_that_they_name(tmp_path: Path, work: Path):
    edit = RecentEdit(
        "s", "a", socket.gethostname(), str(work), "main", "p", "a b.py", "", "", False, now(), now()
    )  # fmt: skip
    assert is_committed(Settings(home=tmp_path), edit)
    assert not is_committed(Settings(home=tmp_path, host="0.0.0.0"), edit)
    os.mkfifo(work / "pipe")
    assert not is_committed(Settings(home=tmp_path), replace(edit, path="pipe"))


def test_a_place_that_leaves_its_worktree_is_not_taken(place: Server, work: Path):
    for path in ("/etc/passwd", "../../etc/passwd", "src/../../x"):
        told = {"path": path, "project": "p", "worktree": str(work)}
        answer = Editor(place, work).report("edit", edit="1", files=[told], machine="other")
        assert answer == {"decision": "go", "text": ""}
    with place.client() as api:
        assert api.get("/api/edits", params={"project": "p"}).json() == {"edits": []}
