"""The audit log, append-only and hash-chained: who did what to which thing, and never a word of what was said."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from palaver.model.audit import Entry, Facts, Kind
from palaver.model.times import instant, micros, now
from palaver.store.engines.database import Change, Engine, Reader, Row

READ_AT_ONCE = 1_000
DENIALS_APART = 60.0  # seconds: somebody who knocks all the time must not fill the disk
DENIALS_KNOWN = 1_000


def append(
    change: Change, kind: Kind, who: str, what: str, workspace: str | None = None, facts: Facts | None = None
) -> None:
    """Add a row. The head's row is locked until the commit, so rows are numbered in the order of their commits."""
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
    read: Reader, *, workspace: str | None = None, kind: str | None = None, before: int = 2**62, limit: int = 100
) -> list[Entry]:
    """The newest entries, newest first."""
    rows = read.all("audit_latest", workspace=workspace, kind=kind, before=before, limit=limit)
    return [_entry(row) for row in rows]


def problems(read: Reader) -> list[str]:
    """What is wrong with the chain; an empty list is good news."""
    last, hash = 0, ""
    for row in _all(read):
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


def _all(read: Reader) -> Iterator[Row]:
    after = 0
    while rows := read.all("audit_after", after=after, limit=READ_AT_ONCE):
        yield from rows
        after = rows[-1]["id"]


def _entry(row: Row) -> Entry:
    facts = orjson.loads(row["facts"])
    return Entry(
        row["id"], instant(row["at"]), row["workspace"], row["kind"], row["who"], row["what"], facts, row["hash"]
    )


def _hash(before: str, row: Row) -> str:
    said = [row[name] for name in ("id", "at", "workspace", "kind", "who", "what", "facts")]
    return hashlib.sha256(before.encode() + b"\n" + orjson.dumps(said)).hexdigest()


def _line(text: str) -> str:
    """What comes from outside, in a shape any engine stores."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")[:300]


@dataclass
class AuditLog:
    """The log of one house, for whoever has something to add."""

    engine: Engine
    _denials: dict[tuple[str, ...], list[float]] = field(default_factory=dict)

    async def note(
        self, kind: Kind, who: str, what: str, workspace: str | None = None, facts: Facts | None = None
    ) -> None:
        await self.engine.change(lambda change: append(change, kind, who, what, workspace, facts))

    async def denied(self, who: str, what: str, workspace: str | None = None, facts: Facts | None = None) -> None:
        """Somebody was turned away. The same again within a minute is counted, and told with the next one."""
        key: tuple[str, ...] = (who, what, workspace or "")
        if key not in self._denials and len(self._denials) >= DENIALS_KNOWN:
            self._forget()
            if len(self._denials) >= DENIALS_KNOWN:
                key = ("everybody",)
        since, untold = self._denials.get(key, (-DENIALS_APART, 0))
        if time.monotonic() - since < DENIALS_APART:
            self._denials[key] = [since, untold + 1]
            return
        self._denials[key] = [time.monotonic(), 0]
        more: Facts = {"before": int(untold)} if untold else {}
        await self.note("denied", who, what, workspace, (facts or {}) | more)

    def _forget(self) -> None:
        old = time.monotonic() - DENIALS_APART
        self._denials = {key: seen for key, seen in self._denials.items() if seen[0] > old}
