"""The failures of a session, and what ended each: the commands and edits between the last failure and the first success
of the same command. Nothing ended an error that came back, or that went away on its own. A wrong answer is worse than
none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from palaver.operations.fixes.shell_commands import core_of, is_looking, is_set_up, parts_of
from palaver.operations.sessions.steps import SHELLS, Step, call_text, file_edits, parse_arguments
from palaver.text.error_signature import ErrorSignature, normalised, signature_of
from palaver.text.secrets import masked

MOST_BETWEEN = 60
"""What took more steps to end was not ended by one of them alone."""
MOST_COMMANDS, MOST_FILES = 3, 3
LONGEST_EDIT = 120
FAILED_OUTPUT = re.compile(r"^(?:Error\b|Exit [Cc]ode:? -?[1-9]|Process exited with code -?[1-9])", re.MULTILINE)
TROUBLE = re.compile(r"\b(?:error|errors|failed|traceback|fatal|exception)\b", re.IGNORECASE)
LOOKING_TOOLS = re.compile(
    r"read|view|list|ls|grep|glob|search|find|fetch|web|todo|plan|think|output|get_|status|open", re.IGNORECASE
)
NOT_ERRORS = re.compile(
    r"(?:user|permission).{0,40}(?:reject|denied|doesn't want|interrupted)|interrupted by user|has not been read yet|"
    r"String to replace not found|requires approval",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class FixingEdit:
    """A changed file, and the first line that was added."""

    file: str
    line: str


@dataclass(frozen=True, slots=True)
class Fix:
    """What ended an error. With both, it is not known which of them did."""

    commands: tuple[str, ...] = ()
    edits: tuple[FixingEdit, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in a session, the last time that it was there."""

    position: int
    command: str
    output: str
    signature: ErrorSignature
    fix: Fix | None = None
    ended_alone: bool = False
    """The same command succeeded later, and nothing was done in between."""
    came_back: bool = False
    tried: tuple[str, ...] = ()
    """Commands after which the error was still there."""


@dataclass(slots=True)
class _Run:
    number: int
    step: Step
    command: str
    cores: tuple[str, ...]
    output: str
    failed: bool
    signature: ErrorSignature | None


def failures_of(steps: Sequence[Step]) -> list[Failure]:
    """Each error of a session, once. The steps must have the beginnings and ends of their texts as `start`."""
    runs = [run for number, step in enumerate(steps) if (run := _run_of(number, step))]
    by_error: dict[ErrorSignature, list[_Run]] = {}
    for run in runs:
        if run.signature:
            same = next((one for one in by_error if one.matches(run.signature)), run.signature)
            by_error.setdefault(same, []).append(run)
    return [_failure(steps, runs, signature, times) for signature, times in by_error.items()]


def _run_of(number: int, step: Step) -> _Run | None:
    if step.kind != "call" or step.tool is None or step.result is None or step.is_edit:
        return None
    command = command_of(step)
    cores = tuple(map(core_of, parts_of(command))) if _is_shell(step.tool) else (f"{step.tool} {command}",)
    output = step.result.start
    failed = step.is_error or FAILED_OUTPUT.search(output[:500] + "\n" + output[-500:]) is not None
    signature = signature_of(output) if failed and cores and not NOT_ERRORS.search(output[:500]) else None
    return _Run(number, step, command, cores, output, failed, signature)


def _failure(steps: Sequence[Step], runs: Sequence[_Run], signature: ErrorSignature, times: Sequence[_Run]) -> Failure:
    first, last = times[0], times[-1]
    tried = [
        command
        for one, next_one in pairwise(times)
        for command in _done(steps[one.number + 1 : next_one.number], next_one)[0]
    ]
    successes = [run for run in runs if run.number > first.number and _succeeds(run, last, signature)]
    came_back = any(run.number < last.number for run in successes)
    after = [run for run in runs if run.number > last.number and _is_same(run, last)]
    fix, ended_alone = None, False
    end = next((run for run in successes if run.number > last.number), None)
    if end and not came_back and end.number - last.number <= MOST_BETWEEN:
        next_run = after[0]
        commands, edits, is_clear = _done(steps[last.number + 1 : next_run.number], next_run)
        nothing_more = next_run is end or not any(_done(steps[next_run.number + 1 : end.number], end)[:2])
        if next_run is not end and not nothing_more:
            # Another error came in between: only a set-up can have ended the first one alone.
            is_clear = is_clear and not edits and any(map(is_set_up, commands))
        fix = _smallest(commands, edits) if is_clear else None
        ended_alone = not commands and not edits and is_clear and nothing_more
    place = last.step.turn.position
    return Failure(place, last.command, last.output, signature, fix, ended_alone, came_back, tuple(tried))


def command_of(step: Step) -> str:
    """The command of a shell, or the arguments of another tool."""
    text = step.turn.start.partition("]")[2].strip()
    if not _is_shell(step.tool or ""):
        return call_text(step.turn.start).brief
    given = parse_arguments(text)
    found = given.get("command", given.get("cmd"))
    if isinstance(found, list) and found and all(isinstance(one, str) for one in found):
        return str(found[2]) if len(found) == 3 and found[1] in ("-c", "-lc") else " ".join(found)
    return found if isinstance(found, str) else call_text(step.turn.start).brief


def _is_shell(tool: str) -> bool:
    return tool.casefold().rpartition("__")[2] in SHELLS


def _is_same(run: _Run, failed: _Run) -> bool:
    """Whether a run is one of the command that failed, maybe after others in one line."""
    return bool(failed.cores) and failed.cores[-1] in run.cores


def _succeeds(run: _Run, failed: _Run, signature: ErrorSignature) -> bool:
    if run.failed or not _is_same(run, failed):
        return False
    is_shortened = "|" in run.command  # then its exit code is that of the last command
    if is_shortened and TROUBLE.search(run.output):
        return False
    return all(normalised(line) != signature.line for line in run.output.split("\n")[-60:])


def _done(steps: Iterable[Step], end: _Run) -> tuple[list[str], list[FixingEdit], bool]:
    """What was done in some steps, and before a command in its own line: commands, edits, and whether that was all."""
    commands: dict[str, None] = {}
    edits: dict[str, FixingEdit] = {}
    is_clear = True
    for step in steps:
        if step.kind != "call" or step.is_error or step.tool is None:
            continue
        if step.is_edit:
            for edit in file_edits(call_text(step.turn.start)):
                file = (edit.path or "").replace("\\", "/").rpartition("/")[2]
                line = next((one.strip() for one in edit.added if one.strip()), "")
                edits.setdefault(file, FixingEdit(file, masked(line[:LONGEST_EDIT])))
        elif _is_shell(step.tool):
            found = [part for part in parts_of(command_of(step)) if not is_looking(part)]
            commands.update(dict.fromkeys(part for part in found if core_of(part) not in end.cores))
        elif not LOOKING_TOOLS.search(step.tool):
            is_clear = False
    before = parts_of(end.command)[:-1] if _is_shell(end.step.tool or "") else []
    commands.update(dict.fromkeys(filter(is_set_up, before)))
    return list(commands), list(edits.values()), is_clear


def _smallest(commands: list[str], edits: list[FixingEdit]) -> Fix | None:
    """The least that may have ended an error."""
    set_up = [one for one in commands if is_set_up(one)]
    if not edits:
        wanted = set_up or commands
        return Fix(tuple(wanted)) if 0 < len(wanted) <= MOST_COMMANDS else None
    if len(edits) > MOST_FILES and not set_up:
        return None
    return Fix(tuple(set_up or commands), tuple(edits))
