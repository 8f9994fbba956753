"""Commands `fix` (what ended this error before) and `fixes` (which are known)."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Literal

import click

from palaver.doors.cli import options, output
from palaver.doors.cli.ask import ask
from palaver.errors import Refused
from palaver.model.projects import project_of, typed_project
from palaver.text.error_signature import decisive_part

AT_ONCE, MOST_KEPT = 65_536, 400_000


@options.command("fix", *options.ALL)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND]")
@click.option("--project", metavar="PROJECT", help="Project you work in: a path or a name. [default: this folder's]")
def fix(target: options.Target, command: tuple[str, ...], project: str | None) -> None:
    """Say what ended the same error before, in recorded sessions of all coding agents.

    The error is read from standard input (palaver fix < error.txt), or COMMAND is run and its output is shown. Nothing
    that is found is run.
    """
    if not command and sys.stdin.isatty():
        raise Refused("Give the error on standard input, or a command: palaver fix < error.txt, palaver fix -- make.")
    code, error = _run(command) if command else (1, _read(sys.stdin.buffer, shown=False))
    if code == 0:
        return
    given = {"error": error.strip() or "?", "project": _project(project)}
    answer: dict[str, Any] = ask(target, "fixes.fixes:find_fix", given)
    if target.format != "table":
        output.show(answer, target.format)
        return
    output.say(answer["text"])
    if answer.get("uri"):
        output.note(f"Read more: {answer['uri']}. If it is wrong: palaver fixes wrong {answer['fix_id']}")


@options.command("fixes", *options.ALL)
@click.argument("action", type=click.Choice(("list", "wrong")), default="list")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--project", metavar="PROJECT", help="Project you work in: a path or a name. [default: this folder's]")
def fixes(target: options.Target, action: Literal["list", "wrong"], ids: tuple[str, ...], project: str | None) -> None:
    """List errors that are known to be fixed, and what ended them; or mark fixes as wrong.

    'palaver fixes wrong ID': palaver does not tell it again.
    """
    if (action == "list") == bool(ids):
        raise click.UsageError(f"'palaver fixes {action}' takes {'no' if ids else 'an'} id.")
    if action == "wrong":
        marked = [ask(target, "fixes.fixes:mark_fix_wrong", {"fix_id": id}) for id in ids]
        output.show({"wrong": marked}, target.format, columns=("fix_id",), rows="wrong")
        return
    answer = ask(target, "fixes.fixes:list_fixes", {"project": _project(project)})
    for one in answer["fixes"]:
        one["ended_by"] = " and ".join([*one.get("commands", ()), *one.get("edits", ())])
    output.show(answer, target.format, columns=("fix_id", "count", "error", "ended_by"), rows="fixes")


def _project(given: str | None) -> str:
    return typed_project(given) if given else project_of(os.getcwd())


def _run(command: tuple[str, ...]) -> tuple[int, str]:
    """Run a command, show its output, and keep the decisive part of it."""
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            text = _read(process.stdout, shown=True)
    except OSError as problem:
        return 127, f"{command[0]}: {problem.strerror}"
    return process.returncode, text


def _read(stream: Any, *, shown: bool) -> str:
    """What is written, without its middle if it is long."""
    data = b""
    while part := stream.read1(AT_ONCE):
        if shown:
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
        data += part
        if len(data) > MOST_KEPT:
            data = data[:AT_ONCE] + b"\n" + data[-AT_ONCE:]
    return decisive_part(data.decode("utf-8", "replace"))
