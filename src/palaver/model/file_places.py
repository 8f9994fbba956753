"""Where a file is: its project, its worktree and branch, and its path in the worktree.

The same file has the same project and path on every machine and in every worktree. Links are followed.
"""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from palaver.model import git_repository
from palaver.model.projects import project_of, repository_at

LONGEST_PATH = 1_000


@dataclass(frozen=True, slots=True)
class FilePlace:
    """The worktree is a folder of its machine. In a folder without git it is that folder, and there is no branch."""

    project: str
    worktree: str
    branch: str
    path: str
    """Relative to the worktree, with slashes."""
    ignores_case: bool = False
    """Whether other letters in its path mean the same file, as on most Macs."""

    @property
    def file(self) -> Path:
        return Path(self.worktree, self.path)


def place_of(path: str, folder: str) -> FilePlace | None:
    """The place of a file, which need not exist, as somebody names it who works in a folder. None if it is in no
    project: in no repository, and outside of the folder. The disk is read."""
    try:
        real = Path(os.path.realpath(os.path.join(folder, os.path.expanduser(path))))
        root, branch = worktree_of(real.parent) or (Path(os.path.realpath(folder)), "")
        relative = real.relative_to(root).as_posix()
    except (OSError, ValueError):  # such as a NUL in the path, or another drive
        return None
    if relative == "." or len(relative) > LONGEST_PATH:
        return None
    return FilePlace(project_of(root), str(root), branch, relative, _ignores_case(root))


def worktree_of(folder: Path) -> tuple[Path, str] | None:
    """The root and the branch of the worktree that a folder is in. A worktree without a branch has the first letters of
    its commit."""
    for one in (folder, *folder.parents):
        if repository_at(one):
            return one, git_repository.branch_of(one)
    return None


def key_of(path: str) -> str:
    """The same text for all spellings of a path that one disk or another takes for the same."""
    return unicodedata.normalize("NFC", path).casefold()


def _ignores_case(root: Path) -> bool:
    other = str(root).swapcase()
    try:
        return other != str(root) and root.samefile(other)
    except OSError:
        return False
