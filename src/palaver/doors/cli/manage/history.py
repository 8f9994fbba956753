"""What `setup` does with the sessions that are on this machine already: it records them at once."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from palaver.doors.cli import options, output
from palaver.doors.cli.watch import Progress, summary, turn_store
from palaver.doors.local.running_server import answer_of
from palaver.errors import PalaverError
from palaver.operations.sessions.private import privacy_rules
from palaver.operations.sessions.watch import Watch, default_folders


def record_history(target: options.Target, base: str, connection: dict[str, str] | None) -> str:
    """Record all sessions on this machine, at the server that clients use or in the local data. Returns the result.

    If the server on this machine records by itself, nothing is read twice.
    """
    places = [place for place in default_folders() if place.exists()]
    if not places:
        return ""
    if connection is None and (recorded := _turns_recorded_by(base)) is not None:
        return f"The server records the sessions on this machine: {recorded:,} turns since its start."
    is_shown = target.format == "table" and sys.stderr.isatty()
    if is_shown:
        output.note("Recording the sessions on this machine. Ctrl-C stops it; 'palaver watch' goes on later.")
    url, token = (connection["url"], connection["token"] or None) if connection else ("", None)

    async def work() -> str:
        there = replace(target, url=url)
        rules = privacy_rules(there.settings(), is_here=True)
        async with turn_store(there, token, is_patient=False) as store:
            watch = Watch(store, places, progress=Progress(is_shown=is_shown).update, rules=rules)
            return summary(await watch.read_all(), "table")

    try:
        return asyncio.run(work())
    except KeyboardInterrupt:
        return "Stopped. 'palaver watch --once' records the other sessions."
    except PalaverError as problem:
        return f"The sessions on this machine were not recorded: {problem.message}"


def _turns_recorded_by(base: str) -> int | None:
    """How many turns the server has recorded of this machine's files; None if it records none, or does not answer."""
    try:
        return int((answer_of(base, "/readyz") or {})["watch"]["turns"])
    except (ValueError, KeyError, TypeError):
        return None
