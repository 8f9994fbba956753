"""Commands `privacy` (what is kept out) and `forget` (remove it for good)."""

from __future__ import annotations

import os
import sys
from typing import Any, Literal

import click

from palaver.doors.cli import options, output
from palaver.doors.cli.ask import ask
from palaver.errors import NotFoundMessage, Refused
from palaver.model.privacy import FILE
from palaver.model.projects import typed_project
from palaver.operations.sessions.private import privacy_rules

MOST_SHOWN = 20


@options.command("privacy", "format", "json", "home")
@click.argument("action", type=click.Choice(("list", "add", "remove")), default="list")
@click.argument("places", nargs=-1, metavar="[FOLDER_OR_PROJECT]...")
def privacy(target: options.Target, action: Literal["list", "add", "remove"], places: tuple[str, ...]) -> None:
    """List, add or remove folders and projects that are kept out: none of their sessions are recorded.

    A folder is kept out with everything below it. The root of a git repository means the project, in all its
    worktrees. A project is an address such as github.com/acme/exporter, or a name. Messages to agents still arrive.

    Two other ways: an empty file '.palaver-private' in a folder, or 'private = true' in the palaver.toml of a project.
    Within a session, palaver does not store parts in <private>…</private>.

    Earlier sessions stay recorded. 'palaver forget --project PROJECT' removes them.
    """
    rules = privacy_rules(target.settings(), is_here=True)
    if (action == "list") == bool(places):
        raise click.UsageError(f"'palaver privacy {action}' takes {'no' if places else 'a'} folder or project.")
    named = [_entry(place) for place in places]
    listed = rules.listed
    if action == "add":
        rules.write(list(dict.fromkeys([*listed, *named])))
        for place, entry in zip(places, named, strict=True):
            output.note(f"Kept out from now on: {entry}. Earlier sessions: palaver forget --project {place} --dry-run")
    elif action == "remove":
        given = {*named, *places}
        if unknown := [place for place, one in zip(places, named, strict=True) if not {one, place} & set(listed)]:
            raise NotFoundMessage(f"'{unknown[0]}' is not in the list. 'palaver privacy' shows it.")
        rules.write([entry for entry in listed if entry not in given])
    rows = [{"kept_out": entry, "by": "palaver privacy"} for entry in rules.listed]
    rows += [{"kept_out": entry, "by": "the setting 'private'"} for entry in rules.setting]
    if why := rules.why(os.getcwd()):
        rows.append({"kept_out": "this folder", "by": why})
    if not rows and target.format == "table":
        output.say(f"Nothing is kept out. 'palaver privacy add FOLDER', or a file '{FILE}' in a folder, keeps it out.")
        return
    output.show({"kept_out": rows}, target.format, columns=("kept_out", "by"), rows="kept_out")


def _entry(place: str) -> str:
    """What is stored for a place: the path of a folder, or a project as typed."""
    if place.startswith((".", "~", os.sep)) or os.path.isdir(place):
        return os.path.realpath(os.path.expanduser(place))
    return place.strip()


@options.command("forget", *options.ALL, no_args_is_help=True)
@click.option("--session", metavar="ID", help="A session, with its subagents, or an imported conversation.")
@click.option("--text", metavar="TEXT", help="Everything that contains this text, in any case.")
@click.option("--since", metavar="TIME", help="Everything said at this time or later.")
@click.option("--until", metavar="TIME", help="Everything said up to this time. A date includes that day.")
@click.option("--agent", metavar="AGENT", help="Only of this agent.")
@click.option("--program", metavar="PROGRAM", help="Only of this program, e.g. claude-code.")
@click.option("--project", metavar="PROJECT", help="Only of this project: path ('.' is this folder), address or name.")
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
def forget(target: options.Target, /, dry_run: bool, yes: bool, **given: str | None) -> None:
    """Permanently remove a session, a text or a period from everything that palaver stores.

    It is removed from transcripts, the search index, vectors, events, imported conversations, threads and the library,
    and the files are rewritten. A single turn or message is removed, not the session around it, unless the session
    itself is named. A note, document or prompt that contains the text is removed as a whole.

    'palaver watch', an import or a rebuild does not bring it back. Earlier backups, files that you exported, and the
    files of the programs themselves still contain it.

    Without --text, --since and --until, the options choose whole sessions: 'palaver forget --project .' removes all
    sessions of this project.
    """
    asked: dict[str, Any] = {name: value for name, value in given.items() if value}
    if project := asked.get("project"):
        asked["project"] = typed_project(project)
    found = ask(target, "admin.forget:forget", asked | {"dry_run": True})
    if dry_run or not found["items"] or not yes:
        _show(found, target.format)
    if dry_run or not found["items"]:
        return
    if not yes:
        if not sys.stdin.isatty():
            raise Refused("Nothing was removed. Add --yes to remove this without a question, or --dry-run to look.")
        click.confirm("This cannot be undone. Remove it everywhere?", abort=True, err=True)
    done = ask(target, "admin.forget:forget", asked)
    if target.format == "table":
        output.say(f"Removed {_counted(done['counts'])}.")
    elif yes:
        output.show(done, target.format, rows="items")


def _show(found: dict[str, Any], format: str) -> None:
    if format != "table":
        output.show(found, format, rows="items")
        return
    if not found["items"]:
        output.say("Nothing was found.")
        return
    rows = [{**item, "removed": "all" if item["whole"] else f"{item['count']} of it"} for item in found["items"]]
    columns = ("kind", "id", "removed", "title")
    output.show({"items": rows[:MOST_SHOWN]}, format, columns=columns, rows="items")
    if len(rows) > MOST_SHOWN:
        output.note(f"These are the first {MOST_SHOWN}. --json lists more.")
    output.note(f"Found {_counted(found['counts'])}.")


def _counted(counts: dict[str, int]) -> str:
    """'2 sessions, 1 note (7 turns and messages)'."""
    counts = dict(counts)
    said = counts.pop("turns and messages")
    kinds = [f"{count:,} {kind}" + ("" if count == 1 else "s") for kind, count in counts.items()]
    return f"{', '.join(kinds).replace('searchs', 'searches')} ({said:,} turns, messages and items)"
