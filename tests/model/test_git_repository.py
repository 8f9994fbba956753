"""A project is the same on every machine and in every worktree: its origin, else its first commit, else its folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from palaver.model import git_repository
from palaver.model.projects import identity_of, is_called, names_of, project_name, project_of, same_project

PLAIN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "HOME": "/nowhere"}
AUTHOR = {f"GIT_{who}_{what}": "ann@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], **PLAIN, **AUTHOR}
    done = subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path, text: str) -> None:
    (folder / "file.txt").write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-m", text * 20)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "exporter"
    root.mkdir()
    git(root, "init", "-b", "main")
    for number in range(12):
        commit(root, f"change {number}")
    git_repository._known.clear()
    return root


def first(folder: Path) -> str:
    return git(folder, "rev-list", "--max-parents=0", "HEAD")


def test_a_repository_without_an_origin_is_known_by_its_first_commit(repository: Path):
    project = f"commit:{first(repository)}#exporter"
    assert project_of(repository) == project
    assert project_name(project) == "exporter"
    assert all(is_called(project, name) for name in ("exporter", project, identity_of(project)))
    commit(repository, "one more")
    assert project_of(repository) == project


def test_packed_commits_are_read_like_loose_ones(repository: Path):
    loose = project_of(repository)
    git(repository, "gc", "--aggressive", "--prune=now")
    git_repository._known.clear()
    assert list((repository / ".git" / "objects" / "pack").glob("*.pack"))
    assert project_of(repository) == loose


def test_worktrees_clones_and_copies_are_the_same_project(repository: Path, tmp_path: Path):
    project = project_of(repository)
    git(repository, "worktree", "add", str(tmp_path / "fix"))
    git(tmp_path, "clone", "--bare", str(repository), "exporter.git")
    git(tmp_path, "clone", str(tmp_path / "exporter.git"), "clone")
    git(tmp_path, "clone", str(repository), "alone")
    git(tmp_path / "alone", "remote", "remove", "origin")
    assert project_of(tmp_path / "fix") == project_of(tmp_path / "clone") == project
    assert project_of(tmp_path / "alone") == f"{identity_of(project)}#alone"
    assert same_project(project_of(tmp_path / "alone"), project)
    assert is_called(project, project_of(tmp_path / "alone"))


def test_the_origin_wins_over_the_first_commit(repository: Path, tmp_path: Path):
    git(repository, "worktree", "add", str(tmp_path / "fix"))
    git(repository, "remote", "add", "upstream", "https://github.com/other/thing.git")
    git(repository, "remote", "add", "origin", "git@github.com:Acme/Exporter.git")
    assert project_of(repository) == project_of(tmp_path / "fix") == "github.com/acme/exporter"
    assert names_of("github.com/acme/exporter") == ("github.com/acme/exporter", "exporter")


@pytest.mark.parametrize(
    "url, address",
    [
        ("https://github.com/acme/exporter", "github.com/acme/exporter"),
        ("https://github.com/acme/exporter.git/", "github.com/acme/exporter"),
        ("https://ann:secret@GitHub.com:443/Acme/Exporter.git", "github.com/acme/exporter"),
        ("git@github.com:acme/exporter.git", "github.com/acme/exporter"),
        ("ssh://git@github.com:22/acme/exporter", "github.com/acme/exporter"),
        ("git://github.com/acme/exporter.git", "github.com/acme/exporter"),
        ("ssh://git@gitlab.example.org:2222/a/b/c.git", "gitlab.example.org:2222/a/b/c"),
        ("/srv/git/exporter.git", None),
        ("../exporter", None),
        ("file:///srv/git/exporter.git", None),
        ("C:/code/exporter", None),
        ("https://", None),
    ],
)
def test_an_address_has_nothing_that_differs_between_machines(url: str, address: str | None):
    assert git_repository.normalised(url) == address


def test_a_submodule_has_its_own_origin(repository: Path, tmp_path: Path):
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init")
    commit(library, "first")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", str(library), "vendor/library")
    git(repository / "vendor" / "library", "remote", "set-url", "origin", "https://github.com/acme/library")
    assert project_of(repository / "vendor" / "library") == "github.com/acme/library"


def test_a_git_file_cannot_claim_the_git_folder_of_another_repository(repository: Path, tmp_path: Path):
    git(repository, "remote", "add", "origin", "https://github.com/acme/secret")
    for claimed in (repository / ".git", repository / ".git" / "modules" / "x"):
        claimed.mkdir(parents=True, exist_ok=True)
        (claimed / "config").write_text((repository / ".git" / "config").read_text())
        stranger = tmp_path.resolve() / f"stranger-{claimed.name}"
        stranger.mkdir()
        (stranger / ".git").write_text(f"gitdir: {claimed}\n")
        assert project_of(stranger) == str(stranger)


@pytest.mark.examples(4)
@pytest.mark.parametrize("name", ["HEAD", "config", "packed-refs"])
@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00", b"ref: refs/../../../etc/passwd", b'[remote "origin"]\nurl =']
)
def test_a_broken_repository_is_still_a_project(repository: Path, name: str, content: bytes):
    (repository / ".git" / name).write_bytes(content)
    assert project_of(repository) in (str(repository), f"commit:{first_of(repository)}#exporter")


def first_of(folder: Path) -> str | None:
    return git_repository.first_commit(folder / ".git")


def test_a_damaged_pack_is_not_read(repository: Path):
    git(repository, "gc", "--prune=now")
    git_repository._known.clear()
    for pack in (repository / ".git" / "objects" / "pack").iterdir():
        pack.chmod(0o600)
        pack.write_bytes(pack.read_bytes()[:1100])
    assert project_of(repository) == str(repository)
    for pack in (repository / ".git" / "objects" / "pack").iterdir():
        pack.write_bytes(b"")
    assert project_of(repository) == str(repository)
