"""Records missing databases and logs in the audit log, until `palaver doctor` has reported them."""

from __future__ import annotations

from palaver.store.admin import audit, tokens
from palaver.store.engines.database import Change, Reader

BY = "palaver"
WORKSPACE, LOG, SETTLED = "lost_workspace", "lost_log", "settle_losses"
LOSSES = {
    "lost_house": "the list of workspaces, the tokens and the audit log were missing on {day}; empty ones were "
    "created. Restore a backup, or create new tokens",
    WORKSPACE: "the database of {whose} was missing on {day}; an empty one was created. Sessions come back from their "
    "transcripts; for the rest, restore a backup",
    "lost_triggers": "the protection of the audit log against changes was missing on {day}; it was created again. Find "
    "out who can write to the database",
    LOG: "the log (-wal) of {whose} was missing on {day}: its newest changes may be lost. A backup may have them",
}


def note(change: Change, loss: str, workspace: str | None = None) -> None:
    """Record what was lost. Without a workspace it belonged to the server's own database."""
    audit.append(change, "upkeep", BY, loss, workspace)


def note_lost_server_database(change: Change, workspaces: list[str]) -> None:
    """Record that the server's own database was lost, and list the remaining workspaces again."""
    if workspaces:
        for name in workspaces:
            tokens.add_workspace(change, name)
        audit.append(change, "upkeep", BY, "lost_house", facts={"workspaces": len(workspaces)})


def restore_audit_protection(change: Change) -> None:
    """Create the triggers that let the audit log only grow, if they are missing, and record that."""
    if not audit.is_protected(change):
        audit.protect(change)
        note(change, "lost_triggers")


def settle(change: Change) -> None:
    """Mark all losses as seen, so that they are not reported again."""
    note(change, SETTLED)


def unsettled(read: Reader) -> list[str]:
    """The losses that were not seen yet, as sentences."""
    found = []
    for entry in audit.latest(read, kind="upkeep", limit=1_000):
        if entry.what == SETTLED:
            break
        if entry.what in LOSSES:
            whose = f"workspace {entry.workspace}" if entry.workspace else "the server's own database"
            found.append(LOSSES[entry.what].format(whose=whose, day=f"{entry.at:%Y-%m-%d %H:%M}"))
    return found
