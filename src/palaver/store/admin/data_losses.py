"""Records missing databases and logs in the audit log, until `palaver doctor` has reported them."""

from __future__ import annotations

from palaver.store.admin import audit, tokens
from palaver.store.engines.database import Change, Reader

BY = "palaver"
SERVER_DATABASE, WORKSPACE, LOG, TRIGGERS = "lost_house", "lost_workspace", "lost_log", "lost_triggers"
SETTLED = "settle_losses"
LOOKED_AT = 1_000


def note_lost_server_database(change: Change, workspaces: list[str]) -> None:
    """Record that the server's own database was lost, and list the remaining workspaces again."""
    if not workspaces:
        return
    for name in workspaces:
        tokens.add_workspace(change, name)
    audit.append(change, "upkeep", BY, SERVER_DATABASE, facts={"workspaces": len(workspaces)})


def note_lost_workspace(change: Change, name: str) -> None:
    audit.append(change, "upkeep", BY, WORKSPACE, name)


def note_lost_log(change: Change, name: str | None) -> None:
    """Record a lost write-ahead log. `name` is the workspace, or None for the server's own database."""
    audit.append(change, "upkeep", BY, LOG, name)


def restore_audit_protection(change: Change) -> bool:
    """Create the triggers that let the audit log only grow, if they are missing, and record that. Returns whether."""
    if audit.is_protected(change):
        return False
    audit.protect(change)
    audit.append(change, "upkeep", BY, TRIGGERS)
    return True


def settle(change: Change) -> None:
    """Mark all losses as seen, so that they are not reported again."""
    audit.append(change, "upkeep", BY, SETTLED)


def unsettled(read: Reader) -> list[str]:
    """The losses that were not seen yet, as sentences."""
    found = []
    for entry in audit.latest(read, kind="upkeep", limit=LOOKED_AT):
        day = f"{entry.at:%Y-%m-%d %H:%M}"
        match entry.what:
            case "settle_losses":
                break
            case "lost_house":
                found.append(
                    f"the list of workspaces, the tokens and the audit log were missing on {day}; empty ones "
                    "were created. Restore a backup, or create new tokens"
                )
            case "lost_workspace":
                found.append(
                    f"the database of workspace {entry.workspace} was missing on {day}; an empty one was created. "
                    "Sessions come back from their transcripts; for the rest, restore a backup"
                )
            case "lost_triggers":
                found.append(
                    f"the protection of the audit log against changes was missing on {day}; it was created again. "
                    "Find out who can write to the database"
                )
            case "lost_log":
                whose = f"workspace {entry.workspace}" if entry.workspace else "the server's own database"
                found.append(
                    f"the log (-wal) of {whose} was missing on {day}: its newest changes may be lost. "
                    "A backup may have them"
                )
    return found
