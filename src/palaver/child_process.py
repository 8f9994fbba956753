"""How palaver starts Python again, and git, as child processes.

The working folder may be a stranger's repository, so nothing in it can run: it is not on the module path of the child,
and the variables with which Python and git load code are left out. Git starts nothing that the settings of the
repository name, and fetches nothing.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess
    from datetime import datetime
    from pathlib import Path

GIT_SECONDS = 20.0
SAFE_GIT = ("-c", "core.fsmonitor=false", "-c", "protocol.allow=never", "--no-pager")
GIT_INDEX = "GIT_INDEX_FILE"
"""Names the files of a commit to its hooks: `git commit FILE` has an index of its own."""
NOTHING_ELSE = {"GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
MOST_COMPARED = 50_000_000
_LOADS_CODE = ("PYTHON", "GIT_")
"""Beginnings of the variables that are left out. `PYTHONPATH=.` would put the working folder on the module path."""


def python(*arguments: str) -> list[str]:
    """The command that runs this Python. -P: the working folder is not on the module path, not even with -m."""
    return [sys.executable, "-P", *arguments]


def with_pipes(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start this Python with pipes to and from it. What it says on stderr is dropped."""
    import subprocess  # hooks need this module, but not that one, which takes long to import

    options |= {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    started: subprocess.Popen[bytes] = subprocess.Popen(python(*arguments), env=own_environment(), **options)
    return started


def clean_environment() -> dict[str, str]:
    """The environment of this process without the variables that load code."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_LOADS_CODE)}


def own_environment() -> dict[str, str]:
    """A clean environment for `python`. The child finds its modules where this process finds them."""
    own = os.path.dirname(os.path.dirname(__file__))
    paths = [path for path in sys.path if path and (path == own or path != _working_folder())]
    return clean_environment() | {"PYTHONPATH": os.pathsep.join(paths)}


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return ""


# Git


def ask_git(root: str | Path, *arguments: str, in_hook: bool = False) -> str | None:
    """What git writes; None if it fails. A git in the folder itself is not started. No hook is, unless git is asked
    where they are."""
    import shutil
    import subprocess

    program = shutil.which("git")
    if program is None or os.path.abspath(program).startswith(os.path.join(root, "")):
        return None
    variables = clean_environment() | NOTHING_ELSE
    if in_hook and GIT_INDEX in os.environ:
        variables[GIT_INDEX] = os.environ[GIT_INDEX]
    safe = SAFE_GIT if arguments[0] == "rev-parse" else (*SAFE_GIT, "-c", "core.hooksPath=/dev/null")
    command = [program, *safe, *arguments]
    try:
        done = subprocess.run(command, cwd=root, env=variables, capture_output=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def is_committed(worktree: str, path: str, edited_at: datetime | None = None) -> bool:
    """Whether a file is as it was committed, or was committed after an edit, or is neither committed nor there. Without
    git nothing is committed."""
    import hashlib

    file_path = os.path.join(worktree, path)
    is_special = os.path.exists(file_path) and not os.path.isfile(file_path)  # reading a pipe never ends
    if is_special or not os.path.exists(os.path.join(worktree, ".git")):
        return False
    blob = (ask_git(worktree, "rev-parse", "--verify", "--quiet", f"HEAD:./{path}") or "").strip()
    try:
        with open(file_path, "rb") as file:
            content = file.read(MOST_COMPARED + 1)
    except OSError:
        return not blob
    make = hashlib.sha256 if len(blob) == 64 else hashlib.sha1
    texts = (content, content.replace(b"\r\n", b"\n"))
    if any(make(b"blob %d\0" % len(text) + text).hexdigest() == blob for text in texts):
        return True
    # Somebody may have changed it again after the commit. Commits have whole seconds.
    since = f"--since={edited_at.timestamp() + 1:.0f}" if edited_at else ""
    return bool(since and ask_git(worktree, "log", "-1", "--format=%H", since, "HEAD", "--", path))
