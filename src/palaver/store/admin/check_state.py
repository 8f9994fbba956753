"""The state of the background check of a workspace: how far it is, and the damage that it found.

The server keeps the state in memory and writes it to a small JSON file, so that commands can show it. It is not in the
database, because a damaged database may not be able to store it. It contains no text of a workspace.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

import orjson

from palaver.model.times import instant, micros, now

State = Literal["off", "waiting", "checking", "paused"]

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
    """How far the check is. `paused`: it waits for the end of an import. `part` is the part that is checked now."""

    state: State
    part: str
    parts_done: int
    parts: int
    last_round_at: datetime | None
    findings: list[Finding]


NEVER_CHECKED = CheckStatus("off", "", 0, 0, None, [])


class CheckState:
    """The state of one workspace in the process that checks it."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self._name = path, name
        self._status = NEVER_CHECKED
        self._is_saved = False
        self._seen: set[tuple[str, str]] = set()
        self.slices = 0
        self.seconds = 0.0
        """The time that all slices took, without the pauses between them."""

    @property
    def status(self) -> CheckStatus:
        """The state here, or else what another process wrote into the file."""
        if self._status is not NEVER_CHECKED:
            return self._status
        return read_status(self.path) or NEVER_CHECKED

    def begin_round(self, parts: int) -> None:
        before = self.status
        known = before.findings if self._status is not NEVER_CHECKED else []
        self._status = CheckStatus("checking", "", 0, parts, before.last_round_at, known)
        self._save()

    def begin_part(self, part: str) -> None:
        self._seen = set()
        self._status = replace(self._status, part=part)

    def report(self, part: str, says: str, advice: str) -> None:
        """Add a finding. A new one is logged, in one line."""
        self._seen.add((part, says))
        if any((one.part, one.says) == (part, says) for one in self._status.findings):
            return
        log.warning("check of workspace %s, %s: %s. %s", self._name, part, says, advice)
        findings = [*self._status.findings, Finding(part, says, advice, now())]
        self._status = replace(self._status, findings=findings)
        self._save()

    def end_part(self) -> None:
        """Forget the findings of this part that were not found again."""
        part = self._status.part
        gone = [one for one in self._status.findings if one.part == part and (part, one.says) not in self._seen]
        for one in gone:
            log.info("check of workspace %s, %s: no longer found: %s", self._name, part, one.says)
        findings = [one for one in self._status.findings if one not in gone]
        self._status = replace(self._status, parts_done=self._status.parts_done + 1, findings=findings)
        self._save()

    def end_round(self, *, is_complete: bool) -> None:
        at = now() if is_complete else self._status.last_round_at
        self._status = replace(self._status, state="waiting", part="", last_round_at=at)
        self._save()

    def set_paused(self, paused: bool) -> None:
        state: State = "paused" if paused else "checking"
        if self._status.state != state:
            self._status = replace(self._status, state=state)
            self._save()

    def is_wanted_again(self) -> bool:
        """Was the file removed? `palaver doctor --repair` does that, so that the next round begins at once."""
        return self._is_saved and not self.path.exists()

    def _save(self) -> None:
        new = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with suppress(OSError):  # a home that is read-only
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(_encode(self._status))
            os.replace(new, self.path)
            self._is_saved = True


def path_of(home: Path, workspace: str) -> Path:
    return home / "checks" / f"{workspace}.json"


def read_status(path: Path) -> CheckStatus | None:
    """The state that the server wrote, or None. It is old if no server runs."""
    try:
        said = orjson.loads(path.read_bytes())
        findings = [Finding(**{**one, "found_at": instant(one["found_at"])}) for one in said.pop("findings")]
        last = said.pop("last_round_at")
        return CheckStatus(**said, last_round_at=instant(last) if last else None, findings=findings)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def forget(home: Path, workspace: str) -> None:
    """Remove the file. A running server then checks again at once."""
    path_of(home, workspace).unlink(missing_ok=True)


def _encode(status: CheckStatus) -> bytes:
    return orjson.dumps(status, default=micros, option=orjson.OPT_PASSTHROUGH_DATETIME)
