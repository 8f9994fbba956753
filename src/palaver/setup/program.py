"""The path of `palaver` that clients run. It must survive an upgrade."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path


def palaver_path(environ: Mapping[str, str] = os.environ) -> str:
    """The command on PATH if it is this installation (often a link that an upgrade keeps), else this one's script."""
    called = Path(sys.argv[0])
    scripts = [called, called.with_name("palaver"), Path(sys.executable).parent / "palaver"]
    if called.name not in ("palaver", "palaver-bus"):
        scripts = scripts[2:]
    own = next(
        (path for path in scripts if path.name == "palaver" and os.access(path, os.X_OK)), scripts[-1]
    ).absolute()
    found = shutil.which("palaver", path=environ.get("PATH", ""))
    if found and os.path.isabs(found) and os.path.realpath(found) == os.path.realpath(own):
        return found
    return str(own)


def is_temporary(path: str) -> bool:
    """Whether the path belongs to an installation that is deleted later, as `uvx` and `pipx run` make it."""
    parts = Path(path).parts
    return any(part.startswith("archive-v") for part in parts) or ("pipx" in parts and ".cache" in parts)
