"""Which project a folder belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from palaver.model.projects import is_called, project_name, project_of, typed_project


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "main"
    (root / ".git" / "worktrees" / "x").mkdir(parents=True)
    (root / "src" / "deep").mkdir(parents=True)
    return root


def point(folder: Path, gitdir: str) -> Path:
    """A folder whose `.git` is a file, as in a worktree or a submodule."""
    folder.mkdir(parents=True)
    (folder / ".git").write_text(f"gitdir: {gitdir}\n")
    return folder


def test_a_folder_inside_a_repository_belongs_to_its_root(repository: Path):
    assert project_of(repository) == project_of(repository / "src" / "deep") == str(repository)
    assert project_of(f"{repository}/") == str(repository)


def test_a_worktree_belongs_to_its_main_repository(repository: Path, tmp_path: Path):
    worktree = point(tmp_path / "elsewhere", f"{repository}/.git/worktrees/x")
    (worktree / "sub").mkdir()
    assert project_of(worktree / "sub") == str(repository)
    relative = point(repository / ".claude" / "worktrees" / "y", "../../../.git/worktrees/x")
    assert project_of(relative) == str(repository)


def test_a_folder_that_only_claims_to_be_a_worktree_is_its_own_project(repository: Path, tmp_path: Path):
    invented = point(tmp_path.resolve() / "invented", f"{repository}/.git/worktrees/none")
    assert project_of(invented) == str(invented)
    (repository / ".git" / "worktrees" / "x" / "gitdir").write_text(f"{repository.parent}/real/.git\n")
    taken = point(tmp_path.resolve() / "taken", f"{repository}/.git/worktrees/x")
    assert project_of(taken) == str(taken)
    real = point(tmp_path.resolve() / "real", f"{repository}/.git/worktrees/x")
    assert project_of(real) == str(repository)


def test_a_project_file_names_its_project(repository: Path):
    (repository / "palaver.toml").write_text('project = "exporter"\n')
    assert project_of(repository / "src" / "deep") == typed_project(f"{repository}/src") == "exporter"
    assert project_of(repository, is_here=False) == str(repository)
    for name in ("", "a/b", "..\\\\x", "x" * 65, "a\\u001b[2J"):
        (repository / "palaver.toml").write_text(f'project = "{name}"\n')
        assert project_of(repository) == str(repository)


def test_a_worktree_of_a_bare_repository_belongs_to_it(tmp_path: Path):
    bare = tmp_path.resolve() / "shared.git"
    (bare / "worktrees" / "x").mkdir(parents=True)
    assert project_of(point(tmp_path / "feature", f"{bare}/worktrees/x")) == str(bare)


def test_a_submodule_is_a_project_of_its_own(repository: Path):
    sub = point(repository / "vendor" / "lib", "../../.git/modules/vendor/lib")
    assert project_of(sub) == str(sub)
    deeper = point(repository / "more", f"{repository}/.git/modules/lib/worktrees/x")
    assert project_of(deeper) == str(deeper)


def test_a_folder_outside_git_is_its_own_project(tmp_path: Path):
    assert project_of(tmp_path) == str(tmp_path.resolve())


@pytest.mark.parametrize(
    "cwd, project",
    [
        ("/nowhere/ann/app", "/nowhere/ann/app"),
        ("/nowhere/ann/app/", "/nowhere/ann/app"),
        ("/nowhere/ann/app/.claude/worktrees/fix-it", "/nowhere/ann/app"),
        ("/nowhere/ann/app/.claude/worktrees/fix-it/src", "/nowhere/ann/app"),
        ("/nowhere/ann/app/.claude/worktrees", "/nowhere/ann/app/.claude/worktrees"),
        ("C:\\Users\\ann\\app\\.claude\\worktrees\\x", "C:\\Users\\ann\\app"),
        ("C:\\Users\\ann\\app\\", "C:\\Users\\ann\\app"),
        ("/", "/"),
    ],
)
def test_the_folder_may_be_on_another_machine(cwd: str, project: str):
    assert project_of(cwd) == project


def test_what_strangers_send_does_not_tell_them_what_is_on_this_disk(repository: Path):
    inside = str(repository / "src")
    assert project_of(inside, is_here=False) == inside
    assert project_of(f"{inside}/.claude/worktrees/x", is_here=False) == inside


def test_a_worktree_that_was_deleted_still_belongs_to_its_repository(repository: Path):
    assert project_of(repository / ".claude" / "worktrees" / "gone") == str(repository)


def test_a_git_file_that_cannot_be_understood_marks_a_root_of_its_own(tmp_path: Path):
    folder = tmp_path.resolve() / "odd"
    folder.mkdir()
    (folder / ".git").write_bytes(b"\xff\xfe nothing")
    assert project_of(folder) == str(folder)


def test_a_filter_names_a_project_by_its_path_or_its_last_component():
    assert is_called("/src/Palaver", "/src/palaver/")
    assert is_called("/src/palaver", "palaver")
    assert is_called("C:\\work\\palaver", "palaver")
    assert not is_called("/src/palaver", "src")
    assert not is_called("/src/palaver", "/palaver")
    assert project_name("/") == "/"


def test_what_is_typed_means_the_project_of_that_folder(repository: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(repository / "src")
    monkeypatch.setenv("HOME", str(repository))
    assert typed_project(".") == typed_project("..") == typed_project("~/src") == str(repository)
    assert typed_project(" palaver ") == "palaver"
    assert typed_project(str(repository / "src")) == str(repository)
    assert typed_project("/nowhere/app") == "/nowhere/app"
    assert typed_project("C:\\work\\app") == "C:\\work\\app"
