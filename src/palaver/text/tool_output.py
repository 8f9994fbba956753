"""Shorten the arguments and results of tool calls in coding sessions."""

from __future__ import annotations

import re
from typing import Literal, get_args

ToolOutput = Literal["none", "short", "full"]
"""How much of tool calls is stored. Errors are stored whole in the short form too."""
CHOICES: tuple[ToolOutput, ...] = get_args(ToolOutput)

LONGEST_ARGUMENT = 160
LONGEST_ARGUMENTS = 600
WHOLE = 1_200
"""Results up to this many characters are not shortened."""
LINES = 6
"""Longer results keep this many lines at the start and at the end."""
LONGEST_LINE = 300

_STRING = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|$)', re.DOTALL)


def brief_arguments(arguments: str) -> str:
    """The arguments of a call with long texts cut. JSON stays readable, also if its end is missing."""
    if arguments.startswith(("{", "[")):
        arguments = _STRING.sub(_brief, arguments)
    return arguments if len(arguments) <= LONGEST_ARGUMENTS else arguments[:LONGEST_ARGUMENTS] + "…"


def _brief(found: re.Match[str]) -> str:
    text = found[0]
    return text if len(text) <= LONGEST_ARGUMENT + 2 else f'{text[: LONGEST_ARGUMENT + 1]}…"'


def first_and_last_lines(text: str) -> str:
    """A result without its middle if it is long."""
    if len(text) <= WHOLE:
        return text
    lines = text.strip("\n").split("\n")
    left_out = len(lines) - 2 * LINES
    if left_out > 0:
        lines = [*lines[:LINES], f"[… {left_out:,} lines left out …]", *lines[-LINES:]]
    end = LONGEST_LINE // 3
    return "\n".join(
        line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - end]} … {line[-end:]}" for line in lines
    )
