"""How palaver starts Python again as a child process.

The working folder may be a stranger's repository, so nothing in it can run: it is not on the module path of the child,
and the variables with which Python and git load code are left out.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

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
