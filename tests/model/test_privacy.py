"""Which folders and projects are kept out."""

from __future__ import annotations

from pathlib import Path

import pytest

from palaver.model.privacy import PrivacyRules


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_a_file_keeps_out_its_folder_and_everything_below(tmp_path: Path, home: Path):
    inner = tmp_path / "work" / "repo" / "src"
    inner.mkdir(parents=True)
    (inner.parent / ".palaver-private").touch()
    rules = PrivacyRules(home)
    assert rules.why(str(inner))
    assert rules.why(str(inner.parent))
    assert rules.why(str(inner / "gone")), "a folder that was deleted since"
    assert rules.why(str(tmp_path / "work")) is None
    (tmp_path / "link").symlink_to(inner)
    assert rules.why(str(tmp_path / "link"))
    (tmp_path / "open").mkdir()
    (inner.parent / "way-out").symlink_to(tmp_path / "open")
    assert rules.why(str(inner.parent / "way-out"))
    assert PrivacyRules(home, is_here=False).why(str(inner)) is None, "on another machine it is another folder"


def test_the_list_keeps_out_folders_projects_and_names(tmp_path: Path, home: Path):
    rules = PrivacyRules(home, ("github.com/acme/exporter",))
    rules.write([str(tmp_path / "secret"), "diary"])
    for place in (tmp_path / "secret", tmp_path / "secret" / "a" / "b", tmp_path / "other" / "diary"):
        assert rules.why(str(place)), place
    assert rules.why("github.com/Acme/exporter")
    assert rules.why("diary")
    for open_place in (str(tmp_path / "secretive"), str(tmp_path), "github.com/acme/importer", "", None):
        assert rules.why(open_place) is None, open_place


def test_the_root_of_a_repository_means_its_worktrees_too(tmp_path: Path, home: Path):
    repository, worktree = tmp_path / "repo", tmp_path / "elsewhere"
    (repository / ".git" / "worktrees" / "one").mkdir(parents=True)
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {repository}/.git/worktrees/one\n")
    (repository / ".git" / "worktrees" / "one" / "gitdir").write_text(f"{worktree}/.git\n")
    rules = PrivacyRules(home)
    rules.write([str(repository / "part")])
    assert rules.why(str(worktree)) is None, "a folder in a repository is only that folder"
    rules.write([str(repository)])
    assert rules.why(str(worktree))


def test_a_change_of_the_list_holds_at_once(tmp_path: Path, home: Path):
    rules = PrivacyRules(home)
    assert rules.why(str(tmp_path)) is None
    PrivacyRules(home).write([str(tmp_path)])
    assert rules.why(str(tmp_path))
    PrivacyRules(home).write([])
    assert rules.why(str(tmp_path)) is None
