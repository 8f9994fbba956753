"""The audit log: append-only and hash-chained. It records actions, never the content of messages."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field

import orjson

from palaver.model.admin.audit import Entry, Facts, Kind
from palaver.model.times import instant, micros, now
from palaver.store.engines.database import Change, Engine, Reader, Row

READ_AT_ONCE = 1_000
"""How many entries are read at once."""
DENIAL_SECONDS = 60.0
"""Equal denials within this time are one entry, so that repeated attempts do not fill the disk."""
MOST_DENIALS = 1_000
"""How many different denials are remembered."""


def append(
    change: Change, kind: Kind, who: str, what: str, workspace: str | None = None, facts: Facts | None = None
) -> None:
    """Add an entry. The head row is locked until the commit, so that ids follow the order of commits."""
    head = change.must("take_audit_id")
    row: Row = {
        "id": head["id"],
        "at": micros(now()),
        "workspace": workspace,
        "kind": kind,
        "who": _line(who),
        "what": _line(what),
        "facts": orjson.dumps(facts or {}, option=orjson.OPT_SORT_KEYS).decode(),
    }
    row["hash"] = _hash(head["hash"], row)
    change.run("insert_audit", **row)
    change.run("set_audit_hash", hash=row["hash"])


def latest(
    read: Reader,
    *,
    workspace: str | None = None,
    kind: str | None = None,
    before: int = 2**62,
    limit: int = 100,
    with_unknown_callers: bool = False,
) -> list[Entry]:
    """The newest entries, newest first. Failed logins and other requests of unknown callers belong to no workspace."""
    unknown = int(with_unknown_callers)
    rows = read.all(
        "audit_latest", workspace=workspace, kind=kind, before=before, limit=limit, with_unknown_callers=unknown
    )
    return [Entry(**{**row, "at": instant(row["at"]), "facts": orjson.loads(row["facts"])}) for row in rows]


def is_protected(read: Reader) -> bool:
    """Does the database itself refuse to change or delete entries?"""
    return bool(read.must("audit_protection")["is_there"])


def protect(change: Change) -> None:
    change.run("protect_audit")


def problems(read: Reader) -> list[str]:
    """The first problem of the hash chain. An empty list means that it is intact."""
    last, hash = 0, ""
    while rows := read.all("audit_after", after=last, limit=READ_AT_ONCE):
        for row in rows:
            if row["id"] != last + 1:
                return [f"entries {last + 1} to {row['id'] - 1} of the audit log are missing"]
            hash = _hash(hash, row)
            if hash != row["hash"]:
                return [f"entry {row['id']} of the audit log was changed after it was written"]
            last = row["id"]
    head = read.must("audit_head")
    if head["id"] != last:
        return [f"the audit log ends at entry {last}, but {head['id']} were written"]
    if head["hash"] != hash:
        return [f"the last entry of the audit log ({last}) is not the one that was written"]
    return []


def _hash(before: str, row: Row) -> str:
    said = [row[name] for name in ("id", "at", "workspace", "kind", "who", "what", "facts")]
    return hashlib.sha256(before.encode() + b"\n" + orjson.dumps(said)).hexdigest()


def _line(text: str) -> str:
    """A text from outside, in a form that every engine stores."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")[:300]


@dataclass
class AuditLog:
    """The audit log of the server."""

    engine: Engine
    _denials: dict[tuple[str, ...], list[float]] = field(default_factory=dict)

    async def note(
        self, kind: Kind, who: str, what: str, workspace: str | None = None, facts: Facts | None = None
    ) -> None:
        await self.engine.change(lambda change: append(change, kind, who, what, workspace, facts))

    async def denied(self, who: str, what: str, workspace: str | None = None, facts: Facts | None = None) -> None:
        """Record a denied request. Repeats within a minute are only counted; the next entry has their number."""
        key: tuple[str, ...] = (who, what, workspace or "")
        if key not in self._denials and len(self._denials) >= MOST_DENIALS:
            old = time.monotonic() - DENIAL_SECONDS
            self._denials = {known: seen for known, seen in self._denials.items() if seen[0] > old}
            if len(self._denials) >= MOST_DENIALS:
                key = ("everybody",)
        since, untold = self._denials.get(key, (-DENIAL_SECONDS, 0))
        if time.monotonic() - since < DENIAL_SECONDS:
            self._denials[key] = [since, untold + 1]
            return
        self._denials[key] = [time.monotonic(), 0]
        more: Facts = {"before": int(untold)} if untold else {}
        await self.note("denied", who, what, workspace, (facts or {}) | more)
