"""Projects, forks and echoes at a terminal: `palaver watch`, `import`, `search` and `reindex`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import word
from tests.importers.samples import answered, codex_file, jsonl, text, tool_use, typed
from tests.sessions.test_watch import Person, person, session

__all__ = ["person"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with a worktree beside it."""
    root = tmp_path.resolve() / "garden"
    (root / ".git" / "worktrees" / "x").mkdir(parents=True)
    worktree = root.parent / "garden-fix"
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {root}/.git/worktrees/x\n")
    return root


def write(person: Person, name: str, *lines: dict[str, Any]) -> Path:
    folder = person.projects / "-nowhere-garden"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonl"
    path.write_bytes(jsonl(*lines))
    return path


def search(person: Person, *args: str) -> list[dict[str, Any]]:
    return list(person.terminal.json("search", *args)["results"])


# Projects


def test_watched_sessions_keep_their_project_also_when_the_index_is_made_again(person: Person, repository: Path):
    ivy, worktree = word(), repository.parent / "garden-fix"
    mine, other = session(), session()
    path = write(person, mine, typed(f"{ivy} one", mine, cwd=str(worktree)))
    write(person, other, typed(f"{ivy} other", other, cwd="/nowhere/else"))
    codex_file(person.rollouts, thread := session(), ivy)
    person.once()
    shutil.rmtree(worktree)  # what is said later still belongs to the repository
    with path.open("ab") as file:
        file.write(jsonl(typed(f"{ivy} two", mine, cwd=str(worktree))))
    person.once()

    def check() -> None:
        listed = person.terminal.json("session", "list")["sessions"]
        assert {(one["session_id"], one["agent"], one["project"]) for one in listed} == {
            (mine, "Claude Code in garden", str(repository)),
            (other, "Claude Code in else", "/nowhere/else"),
            (thread, "Codex in garden", "/home/ann/garden"),
        }
        narrow = person.terminal.json("session", "list", "--project", str(repository))["sessions"]
        assert [one["session_id"] for one in narrow] == [mine]
        found = person.terminal.json("conversation", "search", "claude-code", ivy, "--project", str(repository))
        assert {hit["content"] for hit in found["hits"]} == {f"{ivy} one", f"{ivy} two"}
        by_name = person.terminal.json("conversation", "search", "--all", ivy, "--project", "garden")
        assert {hit["project"] for hit in by_name["hits"]} == {str(repository), "/home/ann/garden"}

    check()
    person.terminal.ok("reindex")
    check()
    (person.terminal.home / "workspaces" / "default.db").unlink()
    check()


def test_a_point_is_the_project_of_the_current_folder(
    person: Person, repository: Path, monkeypatch: pytest.MonkeyPatch
):
    ivy = word()
    (repository / "src").mkdir()
    monkeypatch.chdir(repository / "src")
    person.terminal.ok("session", "append", "--agent", "a", "--session", "s", "--role", "user", "--project", ".", ivy)
    person.terminal.ok("session", "append", "--agent", "a", "--session", "t", "--role", "user", f"{ivy} there")
    given = json.dumps({"role": "user", "content": f"{ivy} line", "project": str(repository)})
    person.terminal.ok("session", "append", "--agent", "a", "--session", "u", input=given)
    assert {hit["project"] for hit in search(person, ivy, "--project", ".")} == {str(repository)}
    assert len(search(person, ivy, "--project", ".")) == 2
    assert len(person.terminal.json("conversation", "search", "a", ivy, "--project", ".")["hits"]) == 2
    assert len(person.terminal.json("session", "list", "--project", ".")["sessions"]) == 2
    table = person.terminal.ok("session", "list", "--project", ".")
    assert "garden" in table
    assert str(repository) not in table


def test_importing_again_adds_the_project_and_does_not_change_it(person: Person, repository: Path):
    ivy, mine = word(), session()
    worktree = repository.parent / "garden-fix"
    path = write(person, mine, typed(f"{ivy} one", mine, cwd=str(worktree)))
    person.terminal.ok("import", str(path))
    shutil.rmtree(worktree)
    assert person.terminal.json("import", str(path))["unchanged"] == 1
    with path.open("ab") as file:
        file.write(jsonl(typed(f"{ivy} two", mine, cwd=str(worktree))))
    assert person.terminal.json("import", str(path))["changed"] == 1
    (held,) = person.terminal.json("archive", "list", "--project", "garden")["conversations"]
    assert (held["messages"], held["project"]) == (2, str(repository))
    assert len(search(person, ivy, "--project", str(repository))) == 2
    exported = person.terminal.ok("export", "--format", "jsonl")
    assert json.loads(exported)["project"] == str(repository)


# No echo, no doubles


def test_calls_of_palaver_are_not_recorded_nor_imported(person: Person):
    ivy, mine = word(), session()
    call = tool_use("mcp__palaver__knowledge_search", query=ivy)
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": f"an echo of {ivy}"}
    path = write(
        person,
        mine,
        typed(f"what of {ivy}?", mine),
        answered(text(f"I look for {ivy}."), call, session=mine),
        typed([result], mine),
    )
    person.once()
    person.terminal.ok("import", str(path))
    wanted = {f"what of {ivy}?", f"I look for {ivy}."}
    assert {hit["content"] for hit in person.found(ivy)} == wanted
    assert {hit["snippet"] for hit in search(person, ivy)} == wanted


def test_a_result_of_palaver_is_left_out_also_when_it_comes_after_a_restart(person: Person):
    ivy, mine = word(), session()
    call = tool_use("mcp__palaver__knowledge_search", query=ivy)
    path = write(person, mine, typed(f"what of {ivy}?", mine), answered(call, session=mine))
    person.once()
    with path.open("ab") as file:
        file.write(jsonl(typed([{"type": "tool_result", "tool_use_id": call["id"], "content": ivy}], mine)))
    person.once()
    assert [hit["content"] for hit in person.found(ivy)] == [f"what of {ivy}?"]


def test_a_session_that_is_watched_imported_and_forked_is_found_once(person: Person):
    ivy, mine, fork = word(), session(), session()
    said = [typed(f"{ivy} asked", mine), answered(text(f"{ivy} answered"), session=mine)]
    write(person, mine, *said)
    write(person, fork, *[one | {"sessionId": fork} for one in said], typed(f"{ivy} again", fork))
    codex_file(person.rollouts, session(), oak := word())
    person.once()
    wanted = {f"{ivy} asked", f"{ivy} answered", f"{ivy} again"}
    found = person.found(ivy)
    assert len(found) == 3
    assert {hit["content"] for hit in found} == wanted
    person.terminal.ok("import", str(person.projects), str(person.rollouts))
    answer = person.terminal.json("search", ivy)
    assert len(answer["results"]) == answer["total_estimated"] == 3
    assert {hit["snippet"] for hit in answer["results"]} == wanted
    for source, count in (("archive", 3), ("sessions", 3)):
        assert len(search(person, ivy, "--source", source)) == count
    assert len(search(person, oak)) == 4
    # A text that is a title too is still one result.
    assert len(search(person, f"{ivy} asked")) == 3
