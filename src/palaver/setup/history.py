"""How long Claude Code keeps its sessions: `cleanupPeriodDays` in its settings. Without it, they are deleted after 30
days."""

from __future__ import annotations

from palaver.setup import jsonc
from palaver.setup.client import Machine
from palaver.setup.clients import claude_code

SETTING = claude_code.KEEP_SESSIONS.path[0]
USUAL_DAYS = 30


def days_kept(machine: Machine) -> int | None:
    """The number of days for which sessions are kept. None if Claude Code is not there, or stores no sessions."""
    if not claude_code.is_installed(machine):
        return None
    try:
        found = jsonc.parse((claude_code.folder(machine) / "settings.json").read_text("utf-8-sig")).get(SETTING)
    except (OSError, ValueError, AttributeError):
        found = None
    if isinstance(found, bool) or not isinstance(found, int):
        return USUAL_DAYS
    return found or None  # 0 means that no session is stored: a choice of the user


def about_history(machine: Machine) -> str:
    """A sentence about sessions that will be deleted; '' if they are kept for long."""
    days = days_kept(machine)
    if days is None or days >= claude_code.KEEP_SESSIONS.value:
        return ""
    return f"Claude Code deletes sessions after {days} days ({SETTING} in its settings.json)."
