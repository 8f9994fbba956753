"""Commands `claim`, `release` and `claims`, and `guard`: the hook of git that refuses to commit what others hold.

A command in the shell of an agent is that agent's: the server knows the processes and sessions of agents by their
hooks, and the command tells which of them are above it.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import click

from palaver.child_process import ask_git
from palaver.doors import hook
from palaver.doors.cli import options, output
from palaver.doors.cli.ask import ask
from palaver.doors.cli.durations import Duration
from palaver.errors import Refused
from palaver.model.file_places import FilePlace, place_of
from palaver.model.privacy import PrivacyRules
from palaver.model.project_file import read_project_file
from palaver.model.projects import typed_project
from palaver.text.path_patterns import matches

SESSIONS = ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID")
"""Variables in which programs tell their shells the session. With them an agent is known from another machine too."""
MOST_PARENTS = 30
COLUMNS = ("holder", "pattern", "kind", "expires_at", "because", "claim_id")
HELD = 10
"""The exit code of `guard check` if others hold the files. With any other one the commit goes on."""
GUARD_SECONDS = 10
MOST_NAMED = 5
MADE = "#!/bin/sh\n# Made by 'palaver guard install'.\n"
BEGIN, END = "# palaver guard: begin\n", "# palaver guard: end\n"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@options.command("claim", *options.ALL, no_args_is_help=True)
@click.argument("patterns", nargs=-1, required=True, metavar="PATTERN…")
@click.option("--for", "time", type=Duration(), default="2h", show_default=True, help="How long, up to 1d.")
@click.option("--because", metavar="TEXT", help="What you do with the files, for those who wait.")
@click.option("--shared", is_flag=True, help="Other shared claims may have the same files, exclusive ones may not.")
def claim(
    target: options.Target, patterns: tuple[str, ...], time: timedelta, because: str | None, shared: bool
) -> None:
    """Hold files of this project, so that no agent overwrites them: they are refused to others, or others are warned.

    PATTERN is a path from this folder. * is any part of a name, ** any folders; a folder means all in it. Quote
    patterns, or the shell replaces them. The claim ends after its time, with 'palaver release', or with the session of
    the agent in whose shell this runs.
    """
    place = _place()
    PrivacyRules(Path(hook.home())).must_record(place.worktree)
    given = {
        "patterns": [_from_root(place, pattern) for pattern in patterns],
        "seconds": int(time.total_seconds()),
        "shared": shared,
        "ignores_case": place.ignores_case,
        "project": place.project,
        "shell": shell(target),
        **({"because": because} if because else {}),
    }
    _show(target, ask(target, "edits.claims:claim", given))


@options.command("release", *options.ALL, no_args_is_help=True)
@click.argument("which", required=False, metavar="[PATTERN|ID]")
@click.option("--all", "is_all", is_flag=True, help="All that you hold in this project.")
def release(target: options.Target, which: str | None, is_all: bool) -> None:
    """Free files that you hold. By its ID, a person can end the claim of an agent too; the agent is told."""
    if bool(which) == is_all:
        raise click.UsageError("Name a pattern or an id, or use --all.")
    given: dict[str, Any] = {"shell": shell(target)}
    if which and _ID.fullmatch(which):
        given["claim_id"] = which
    else:
        place = _place()
        given |= {"project": place.project} | ({"pattern": _from_root(place, which)} if which else {})
    _show(target, ask(target, "edits.claims:release", given))


@options.command("claims", *options.ALL)
@click.option("--project", metavar="PROJECT", help="A path or a name; '*' for all. [default: that of this folder]")
def claims(target: options.Target, project: str | None) -> None:
    """List who holds which files of a project, until when and why."""
    given = {"project": typed_project(project) if project else _place().project, "shell": shell(target)}
    output.show(ask(target, "edits.claims:list_claims", given), target.format, columns=COLUMNS, rows="claims")


def _show(target: options.Target, answer: dict[str, Any]) -> None:
    if target.format == "table":
        for one in answer["claims"]:
            output.say(f"{one['claim_id']}  {output.clean(one['text'])}")
    else:
        output.show(answer, target.format, rows="claims")


def _place() -> FilePlace:
    """Where this folder is: its project and worktree."""
    place = place_of(".palaver", os.getcwd())
    if place is None:
        raise Refused(f"{os.getcwd()} is in no project.")
    return place


def _from_root(place: FilePlace, pattern: str) -> str:
    """A pattern as typed in this folder, from the root of the worktree."""
    parts = Path(pattern).parts
    first = next((n for n, part in enumerate(parts) if set(part) & set("*?")), len(parts))
    real = os.path.realpath(os.path.join(*parts[:first])) if first else os.getcwd()
    path = os.path.normpath(os.path.join(real, *parts[first:]))
    if not Path(path).is_relative_to(place.worktree):
        raise Refused(f"{pattern} is outside of the project, {place.worktree}.")
    relative = Path(path).relative_to(place.worktree).as_posix()
    return f"{relative}/**" if os.path.isdir(path) and relative != "." else relative


def shell(target: options.Target) -> str:
    """The processes above this one, the nearest first, and the sessions of agents in the environment. A server on
    another machine has other processes."""
    found = [os.environ[name] for name in SESSIONS if os.environ.get(name)]
    pids: list[str] = []
    pid = os.getppid()
    while pid > 1 and len(pids) < MOST_PARENTS and not target.server:
        pids.append(str(pid))
        try:
            with open(f"/proc/{pid}/stat") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except OSError:  # there is no /proc on this system, or the process has ended
            break
    return " ".join([*pids, *found])[:1_000]


# The hook of git


@options.command("guard install", "home")
def install(target: options.Target) -> None:
    """Let git refuse to commit files of this repository that another agent holds, in all its worktrees.

    It adds a few lines to the pre-commit hook, at its beginning. 'palaver guard remove' takes them out again.
    """
    from palaver.setup import files
    from palaver.setup.clients import palaver_path

    path = _hook_path()
    home = target.home or os.environ.get("PALAVER_HOME")
    words = [palaver_path(), "guard", "check", *(["--home", os.path.abspath(home)] if home else [])]
    line = f"{shlex.join(words)} || [ $? -ne {HELD} ] || exit 1"
    block = f"{BEGIN}[ ! -x {shlex.quote(words[0])} ] || {line}\n{END}".encode()
    found = files.read(path)
    if found is not None:
        first = found.partition(b"\n")[0] + b"\n"
        is_ours = BEGIN.encode() in found
        if not is_ours and not (re.match(rb"#!.*\b(sh|bash|dash|zsh)\b", first) and os.access(path, os.X_OK)):
            raise Refused(f"{path} is no shell script that git runs. Let it run this, and end if that fails: {line}")
        rest = _without_block(found)
        content = first + block + rest[len(first) :]
    else:
        content = MADE.encode() + block
    files.write(path, content, mode=None if found is not None else 0o755)
    output.say(f"git asks palaver before each commit: {path}")


@options.command("guard remove", "home")
def remove(target: options.Target) -> None:
    """Take palaver out of the pre-commit hook of this repository. All else in it stays as it is."""
    from palaver.setup import files

    path = _hook_path()
    found = files.read(path) or b""
    rest = _without_block(found)
    if rest == found:
        output.say(f"palaver is not in {path}.")
        return
    if rest == MADE.encode():
        files.remove(path, [])
    else:
        files.write(path, rest)
    output.say(f"Removed from {path}.")


def _without_block(content: bytes) -> bytes:
    before, begin, rest = content.partition(BEGIN.encode())
    _, end, after = rest.partition(END.encode())
    return before + after if begin and end else content


def _hook_path() -> Path:
    """The pre-commit hook of the repository, which its worktrees share."""
    here = Path.cwd()
    told = ask_git(here, "rev-parse", "--git-common-dir", "--git-path", "hooks")
    if not told:
        raise Refused(f"{here} is in no git repository.")
    common, hooks = (Path(os.path.abspath(line)) for line in told.splitlines())
    if hooks != common / "hooks":
        raise Refused(
            f"git runs the hooks in {hooks} (core.hooksPath). Add to pre-commit there: palaver guard check || exit 1"
        )
    return hooks / "pre-commit"


@options.command("guard check", *options.ALL)
def check(target: options.Target) -> None:
    """Refuse, with exit code 10, if others hold files of the commit. The hook of git runs it.

    The files of your own claims are not refused. If palaver cannot be asked, the commit goes on.
    """
    try:
        signal.signal(signal.SIGALRM, _too_late)
        signal.alarm(GUARD_SECONDS)
        place = _place()
        if read_project_file(place.worktree).claims == "off":
            return
        changed = ("diff", "--cached", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", "-z")
        paths = (ask_git(Path(place.worktree), *changed, in_hook=True) or "").split("\0")[:-1]
        given = {"project": place.project, "shell": shell(target)}
        answer = ask(target, "edits.claims:list_claims", given)
        signal.alarm(0)
    except Exception as problem:
        output.note(f"The commit was not checked: {problem}")
        return
    is_held = False
    for one in answer["claims"]:
        held = [path for path in paths if matches(one["pattern"], path, ignores_case=place.ignores_case)]
        if held and one["kind"] == "exclusive" and not one["is_yours"]:
            more = f" and {len(held) - MOST_NAMED} more" if len(held) > MOST_NAMED else ""
            output.note(f"{one['text']}: {', '.join(held[:MOST_NAMED])}{more}")
            output.note(f"Ask {one['holder']}, or let a person end it: palaver release {one['claim_id']}")
            is_held = True
    if is_held:
        output.note("Nothing was committed. Commit anyway: git commit --no-verify")
        sys.exit(HELD)


def _too_late(*_: object) -> NoReturn:
    raise TimeoutError(f"palaver did not answer within {GUARD_SECONDS} seconds.")
