"""Which session edited which file lately, and what a session was told before an edit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from palaver.model.file_places import FilePlace, key_of
from palaver.model.projects import identity_of
from palaver.model.times import instant, micros, now
from palaver.store.bus.agents import connection_key, hook_connection
from palaver.store.engines.database import Change, Reader
from palaver.store.rows import from_row, params_of

EDITS_KEPT, WARNINGS_KEPT = timedelta(days=1), timedelta(days=30)


@dataclass(frozen=True, slots=True)
class RecentEdit:
    """The last edit of a session in a file. `first_at` is the first one of those without a long pause."""

    session: str
    """A hash of the session's id."""
    agent_id: str
    machine: str
    worktree: str
    branch: str
    project: str
    path: str
    lines: str
    """The lines that the last edit changes, such as 12-20; '' if they are unknown."""
    task: str
    is_probable: bool
    """It was read in the file of a session. No hook has told it."""
    first_at: datetime
    last_at: datetime

    def is_in(self, place: FilePlace, machine: str) -> bool:
        """Whether it is the same copy of the file."""
        return (self.machine, self.worktree) == (machine, place.worktree)


def session_key(session_id: str) -> str:
    return connection_key(session_id)[:32]


def lock_file(change: Change, project: str, path: str) -> None:
    """Let no other server look at a file until the commit: of two edits at once, the second one sees the first."""
    change.one("lock_session", prefix=f"{identity_of(project)}\n{key_of(path)}")


def put(change: Change, edit: RecentEdit, pause: timedelta) -> None:
    """Store an edit. After a long pause the session begins anew with the file."""
    times = {"first_at": micros(edit.first_at), "last_at": micros(edit.last_at), "before": micros(edit.last_at - pause)}
    keys = {"project_key": identity_of(edit.project), "path_key": key_of(edit.path)}
    values = params_of(edit) | times | keys | {"is_probable": int(edit.is_probable)}
    change.run("put_file_edit", **values)
    change.run("forget_old_edits", before=micros(now() - EDITS_KEPT))


def of_file(read: Reader, place: FilePlace, since: datetime) -> list[RecentEdit]:
    """The edits of a file in all worktrees and on all machines, the latest first."""
    keys = {"project_key": identity_of(place.project), "path_key": key_of(place.path)}
    found = [from_row(RecentEdit, row) for row in read.all("edits_of_file", **keys, since=micros(since))]
    return [edit for edit in found if edit.path == place.path or place.ignores_case]


def lately(read: Reader, since: datetime) -> list[RecentEdit]:
    return [from_row(RecentEdit, row) for row in read.all("edits_since", since=micros(since))]


def has_hooks(read: Reader, session_id: str) -> bool:
    """Whether hooks report what a session does, as far as it is known."""
    told = read.one("told_edit", session=session_key(session_id))
    return told is not None or hook_connection(read, session_id) is not None


# What was told


@dataclass(frozen=True, slots=True)
class Told:
    """When a session was told something, and the edits that were stopped for it."""

    edits: str
    told_at: datetime


def told(read: Reader, session: str, about: str) -> Told | None:
    row = read.one("edit_warning", session=session, about=about)
    return Told(row["edits"], instant(row["told_at"])) if row else None


def set_told(change: Change, session: str, about: str, edits: str) -> None:
    change.run("put_edit_warning", session=session, about=about, edits=edits, at=micros(now()))
    change.run("forget_old_warnings", before=micros(now() - WARNINGS_KEPT))
