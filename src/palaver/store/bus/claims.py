"""Claims on files: who holds which files of a project, and whether the session that claimed them still runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from palaver.model.claims import Claim
from palaver.model.people import Agent, Caller
from palaver.model.projects import identity_of
from palaver.model.times import micros, now
from palaver.model.visibility import owner_of
from palaver.store.bus import agents
from palaver.store.engines.database import Change, Reader, Row
from palaver.store.rows import from_row, params_of
from palaver.store.sessions import sharing
from palaver.text.path_patterns import matches

SILENT = timedelta(hours=1)
"""A claim does not count while its agent is silent for this long, unless its process runs on this machine."""
KEPT = timedelta(days=30)
"""How long one can look up how a claim ended."""


@dataclass(frozen=True, slots=True)
class StoredClaim(Claim):
    """A claim with what decides who may see it, and when it ends."""

    owner: str = ""
    session: str | None = None
    ignores_case: bool = False
    """Whether it was made where the case of file names does not matter."""
    is_held: bool = True
    """Whether the session that claimed the files still runs, as far as this machine knows."""


def of_project(read: Reader, project: str | None) -> list[StoredClaim]:
    """The claims of a project, or of all, that have neither ended nor expired, the oldest first."""
    key = identity_of(project) if project else None
    rows = read.all("claims", project_key=key, now=micros(now()))
    return [from_row(StoredClaim, row, is_held=_is_held(row)) for row in rows]


def _is_held(row: Row) -> bool:
    if row["agent_id"] is None:
        return True
    if row["last_heartbeat"] is None or (row["session"] and not row["connection"]):
        return False  # the agent was removed, or its session has ended
    if row["connection"] and agents.process_of(row["connection"]):
        return not agents.has_ended(row["connection"])
    return not row["is_released"] and row["last_heartbeat"] >= micros(now() - SILENT)


def seen_by(read: Reader, caller: Caller, project: str | None = None) -> list[StoredClaim]:
    """The claims that are held and that the caller may see."""
    agent = agents.find(read, caller.acting_agent) if caller.acting_agent else None
    reach, owner = sharing.reach_of(read, caller), owner_of(caller, agent)
    found = of_project(read, project)
    return [one for one in found if one.is_held and reach.may_see_claim(one, one.owner, owner)]


def on_path(
    read: Reader, caller: Caller, project: str, path: str, not_of_agent: str | None, *, ignores_case: bool = False
) -> list[StoredClaim]:
    """The claims of others on a file that the caller may see. The path starts at the root of the worktree."""
    return [
        one
        for one in seen_by(read, caller, project)
        if (one.agent_id is None or one.agent_id != not_of_agent)
        and matches(one.pattern, path, ignores_case=ignores_case or one.ignores_case)
    ]


def lock(change: Change, project: str) -> None:
    """Let no other server claim files of a project until the commit."""
    change.one("lock_session", prefix=f"claims:{identity_of(project)}")


def add(change: Change, claim: StoredClaim) -> None:
    values = params_of(claim) | {"id": claim.claim_id, "project_key": identity_of(claim.project)}
    del values["claim_id"], values["is_held"]
    change.run("insert_claim", **values | {"ignores_case": int(claim.ignores_case)})
    change.run("forget_old_claims", before=micros(now() - KEPT))


def end(change: Change, claim_id: str, how: str) -> bool:
    """End a claim before its time. Returns False if it has ended."""
    return bool(change.run("end_claim", id=claim_id, at=micros(now()), ended=how))


def end_session(change: Change, session_id: str) -> bool:
    """Free what the session of a client claimed. Returns whether it held anything."""
    rows = change.all("claims_of_session", session=agents.hook_prefix(session_id), now=micros(now()))
    return any(end(change, row["id"], "session ended") for row in rows)


def session_of(read: Reader, caller: Caller, agent: Agent) -> str | None:
    """The connection whose end frees what an agent claims now: its only session with hooks, else this one."""
    keys = [agents.without_process(row["id_hash"]) for row in agents.running_connections(read, agent.id)]
    hooked = [key for key in keys if key.startswith("hook:")]
    return hooked[0] if len(hooked) == 1 else caller.session.key if caller.session.key in keys else None
