"""The place of a file is the same on every machine, in every worktree and under every name of the file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from palaver.model.file_places import key_of, place_of


def git(folder: Path, *words: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "acme tool"
    git(root, "init")
    (root / "src").mkdir()
    (root / "src" / "a.py").write_text("a = 1\n")
    git(root, "add", ".")
    git(root, "commit", "-m", "begin")
    return root


def test_a_file_has_a_path_in_its_worktree(repository: Path):
    place = place_of("src/a.py", str(repository))
    assert place is not None
    assert (place.worktree, place.branch, place.path) == (str(repository), "main", "src/a.py")
    assert place_of("../src/b/../a.py", str(repository / "src")) == place
    assert place_of(str(repository / "src" / "a.py"), "/") == place
    (repository.parent / "link").symlink_to(repository / "src")
    assert place_of("link/a.py", str(repository.parent)) == place
    new = place_of("new/folder/b.py", str(repository))
    assert new is not None
    assert new.path == "new/folder/b.py"


def test_a_worktree_is_the_same_project_on_another_branch(repository: Path):
    git(repository, "worktree", "add", "-b", "feature/x", "../other")
    here, there = place_of("src/a.py", str(repository)), place_of("src/a.py", str(repository.parent / "other"))
    assert here is not None
    assert there is not None
    assert (there.project, there.path, there.branch) == (here.project, here.path, "feature/x")
    assert there.worktree != here.worktree
    git(repository.parent / "other", "checkout", "--detach")
    detached = place_of("src/a.py", str(repository.parent / "other"))
    assert detached is not None
    assert len(detached.branch) == 10


def test_a_folder_without_git_is_a_place_for_the_files_in_it(tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    place = place_of("notes/a.md", str(work))
    assert place is not None
    assert (place.project, place.branch, place.path) == (str(work), "", "notes/a.md")
    for outside in ("../other.md", "/etc/passwd", "~/x", ".", "a\0b", "x" * 2_000):
        assert place_of(outside, str(work)) is None


def test_a_file_of_another_repository_is_of_its_project(repository: Path, tmp_path: Path):
    (tmp_path / "work").mkdir()
    place = place_of(str(repository / "src" / "a.py"), str(tmp_path / "work"))
    assert place is not None
    assert place.worktree == str(repository)


def test_spellings_of_a_path_have_one_key():
    assert key_of("Src/Cafe\u0301.py") == key_of("src/caf\u00e9.py")
