"""The state of the background check of a workspace: when it ended, and the damage that it found.

The server keeps the state in memory and writes it to a small JSON file, so that commands can show it. It is not in the
database, because a damaged database may not be able to store it. It contains no text of a workspace.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import TypeAdapter

from palaver.model.times import now

State = Literal["off", "waiting", "checking"]

log = logging.getLogger("palaver")


@dataclass(frozen=True, slots=True)
class Finding:
    """Damage that the check found: where, what, and what to do about it."""

    part: str
    says: str
    advice: str
    found_at: datetime


@dataclass(frozen=True, slots=True)
class CheckStatus:
    """Whether the check runs, when it last looked at everything, and what it found."""

    state: State
    last_round_at: datetime | None
    findings: list[Finding]


class CheckState:
    """The state of one workspace in the process that checks it."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self._name = path, name
        self._status: CheckStatus | None = None
        self._is_saved = False

    @property
    def status(self) -> CheckStatus:
        """The state here, or else what another process wrote into the file."""
        if self._status:
            return self._status
        try:
            return TypeAdapter(CheckStatus).validate_json(self.path.read_bytes())
        except (OSError, ValueError):
            return CheckStatus("off", None, [])

    def update(self, **changes: Any) -> None:
        """Change fields of the status, and write it if they are new."""
        before = self.status
        self._status = replace(before, **changes)
        if self._status != before:
            self._save(self._status)

    def report(self, part: str, found: Mapping[str, str]) -> None:
        """Replace the findings of a part by what was found now, each with its advice. A new one is logged."""
        before = self.status.findings
        known = {one.says: one for one in before if one.part == part}
        for says in known.keys() - found.keys():
            log.info("check of workspace %s, %s: no longer found: %s", self._name, part, says)
        for says, advice in found.items():
            if says not in known:
                log.warning("check of workspace %s, %s: %s. %s", self._name, part, says, advice)
        now_found = [known.get(says) or Finding(part, says, advice, now()) for says, advice in found.items()]
        self.update(findings=[one for one in before if one.part != part] + now_found)

    def is_wanted_again(self) -> bool:
        """Was the file removed? `palaver doctor --repair` does that, so that the next round begins at once."""
        return self._is_saved and not self.path.exists()

    def _save(self, status: CheckStatus) -> None:
        new = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with suppress(OSError):  # a home that is read-only
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(orjson.dumps(status))
            os.replace(new, self.path)
            self._is_saved = True


def path_of(home: Path, workspace: str) -> Path:
    return home / "checks" / f"{workspace}.json"
