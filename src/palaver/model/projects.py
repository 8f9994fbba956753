"""Projects: which project a folder belongs to, and how a filter names one.

A project is the same on every machine and in every worktree. It is the first of these that is known: the name in
`palaver.toml`, the address of the repository's origin ('github.com/acme/exporter'), the hash of its first commit with a
name for people ('commit:3f2a…#exporter'), the folder. A submodule is a project of its own.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from palaver.model import git_repository
from palaver.model.project_file import read_project_file

LONGEST = 1000
"""Maximum characters of a project's path. A longer one is cut."""

EVERY_PROJECT = "*"
"""The value of a project filter that leaves nothing out."""

_WORKTREE_OF_CLAUDE = re.compile(r"(?P<repository>.+?)[/\\]\.claude[/\\]worktrees[/\\][^/\\]+(?:[/\\].*)?")
_WORKTREE = re.compile(r"(?P<common>.+)[/\\]worktrees[/\\][^/\\]+[/\\]?")
_SUBMODULE = re.compile(r"(?P<whole>.+?)[/\\]\.git[/\\]modules[/\\].+")
_WINDOWS = re.compile(r"[A-Za-z]:[/\\]|\\\\")
_MOST_OF_A_POINTER = 8_192
_MOST_ORIGINS = 5
"""A clone of a folder on this machine is the same project as that folder, over this many clones."""
_BY_COMMIT = "commit:"


def project_of(path: str | Path, *, is_here: bool = True) -> str:
    """The project a folder belongs to.

    The folder may be on another machine. Then its path is used unchanged, except that `REPO/.claude/worktrees/NAME`
    becomes `REPO`. With `is_here=False` the disk is not read: an upload must not reveal which folders exist.
    """
    given = _trimmed(str(path))
    folder = given
    if not (is_here and os.path.isdir(folder)) and (found := _WORKTREE_OF_CLAUDE.fullmatch(given)):
        folder = found["repository"]
    if not is_here or not os.path.isabs(folder) or not os.path.isdir(folder):
        return folder[:LONGEST]
    if name := read_project_file(folder).project:
        return name
    start = Path(os.path.realpath(folder))
    for one in (start, *start.parents):
        if found_at := repository_at(one):
            return _project_of_repository(*found_at)[:LONGEST]
    return str(start)[:LONGEST]


def _project_of_repository(root: Path, git: Path, clones: int = 0) -> str:
    """The project of a repository with this root and this git folder."""
    if (url := git_repository.origin_of(git)) and clones < _MOST_ORIGINS:
        if address := git_repository.normalised(url):
            return address
        there = git_repository.local_path(url, root)
        if there and (found := repository_at(there)) and found[0] != root:
            return _project_of_repository(*found, clones + 1)
    if first := git_repository.first_commit(git):
        return f"{_BY_COMMIT}{first}#{root.name.removesuffix('.git')}"
    return str(root)


def typed_project(text: str) -> str:
    """A project as typed on this machine. A bare name stays; a path (also `.` and `~`) becomes its project."""
    given = text.strip()
    if not (given.startswith((".", "~")) or "/" in given or _WINDOWS.match(given)):
        return given
    if _WINDOWS.match(given) and os.sep == "/":
        return project_of(given)
    return project_of(os.path.abspath(os.path.expanduser(given)))


def project_name(project: str) -> str:
    """The name for people, its last component: `/src/palaver` is `palaver`."""
    if project.startswith(_BY_COMMIT):
        return project.partition("#")[2] or project
    return re.split(r"[/\\]" if _WINDOWS.match(project) else "/", _trimmed(project))[-1] or project


def identity_of(project: str) -> str:
    """The part of a project that tells it from others: 'commit:3f2a…#exporter' is 'commit:3f2a…' on every machine."""
    given = _trimmed(project)
    return (given.partition("#")[0] if given.startswith(_BY_COMMIT) else given).casefold()


def same_project(one: str | None, other: str | None) -> bool:
    """Whether both are the same project. An unknown project is like no other."""
    return bool(one and other) and identity_of(one or "") == identity_of(other or "")


def names_of(project: str) -> tuple[str, ...]:
    """The names of a project in a filter: the whole, its last component, and what tells it from others."""
    return tuple(dict.fromkeys((_trimmed(project), project_name(project), identity_of(project))))


def is_called(project: str, name: str) -> bool:
    """Whether a filter with this name selects the project. Case does not matter, as in the index."""
    return identity_of(name) in (one.casefold() for one in names_of(project))


def _trimmed(path: str) -> str:
    """The path without surrounding blanks and without a slash at its end."""
    given = path.strip()
    return given.rstrip("/\\" if _WINDOWS.match(given) else "/") or given


def repository_at(folder: Path) -> tuple[Path, Path] | None:
    """The root and the git folder of the repository whose root, or whose worktree's root, is this folder."""
    sign = folder / ".git"
    if os.path.isdir(sign):
        return folder, sign
    if os.path.isfile(folder / "HEAD") and os.path.isdir(folder / "objects"):  # a bare repository
        return (folder.parent if folder.name == ".git" else folder), folder
    pointer = _read_pointer(sign)
    if pointer is None:
        return None
    kept_at = os.path.normpath(folder / pointer.removeprefix("gitdir:").strip())
    if not pointer.startswith("gitdir:") or not os.path.isdir(kept_at):
        return folder, sign
    # A stranger's folder can contain a `.git` file that names another repository. Git keeps a folder for each worktree
    # in its repository, with the place of the worktree in it.
    if found := _SUBMODULE.fullmatch(kept_at):
        is_inside = Path(found["whole"]) in folder.parents
        return folder, Path(kept_at) if is_inside else sign
    found = _WORKTREE.fullmatch(kept_at)
    if found is None:
        return folder, sign
    place = _read_pointer(Path(kept_at, "gitdir"))
    if place is not None and os.path.realpath(os.path.join(kept_at, place)) != os.path.realpath(sign):
        return folder, sign
    common = Path(found["common"])
    return (common.parent if common.name == ".git" else common), common


def _read_pointer(path: Path) -> str | None:
    """The path in a file of git; None if there is no such file."""
    if not os.path.isfile(path):
        return None
    try:
        with path.open("rb") as file:
            return file.read(_MOST_OF_A_POINTER).decode("utf-8", "replace").strip()
    except OSError:
        return None
