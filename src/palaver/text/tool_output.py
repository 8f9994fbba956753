"""Shorten the arguments and results of tool calls in coding sessions."""

from __future__ import annotations

import re
from typing import Literal, get_args

ToolOutput = Literal["none", "short", "full"]
"""How much of tool calls is stored. Errors are stored whole in the short form too."""
CHOICES: tuple[ToolOutput, ...] = get_args(ToolOutput)

LONGEST_ARGUMENT = 160
LONGEST_ARGUMENTS = 600
LONGEST_CALL = LONGEST_PLAN = 2_000
LONGEST_EDIT = 100_000
"""Edits are kept whole, up to this many characters: they say who wrote a line."""
PATCH = "*** Begin Patch"
CHANGING_TOOLS = frozenset(
    (
        "edit", "multiedit", "multi_edit", "apply_patch", "applypatch", "patch", "str_replace", "str_replace_editor",
        "str_replace_based_edit_tool", "edit_file", "replace", "replace_in_file", "search_replace",
        "editedexistingfile",
    )
)  # fmt: skip
"""The tools of coding agents that change parts of files, in lower case."""
WRITING_TOOLS = frozenset(
    ["write", "notebookedit", "create_file", "create", "write_file", "write_to_file", "insert", "newfilecreated"]
)
"""The tools that write whole files or cells."""
PLANNING_TOOLS = frozenset(("todowrite", "todo_write", "write_todos", "update_plan", "taskcreate", "taskupdate"))
"""The tools that write the to-do list of a session. Long lists are kept too."""
WHOLE = 1_200
"""Results up to this many characters are not shortened."""
LINES = 6
"""Longer results keep this many lines at the start and at the end."""
LONGEST_LINE = 300

_ESCAPE_AT_END = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?$")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|$)', re.DOTALL)


def is_edit(tool: str) -> bool:
    """Whether a tool changes or writes files, by its name. The server of an MCP tool comes before it."""
    name = tool.casefold().rpartition("__")[2]
    return name in CHANGING_TOOLS or name in WRITING_TOOLS


def longest_call(arguments: str, tool: str) -> int:
    """How much is kept of the arguments of a call in the full form."""
    return LONGEST_EDIT if is_edit(tool) or PATCH in arguments else LONGEST_CALL


def brief_arguments(arguments: str, tool: str = "") -> str:
    """The arguments of a call with long texts cut. JSON stays readable, also if its end is missing."""
    longest, most = LONGEST_ARGUMENT, LONGEST_ARGUMENTS
    if is_edit(tool) or PATCH in arguments:
        longest = most = LONGEST_EDIT
    if tool.casefold() in PLANNING_TOOLS:
        most = LONGEST_PLAN

    def brief(found: re.Match[str]) -> str:
        text = found[0]
        if len(text) <= longest + 2:
            return text
        cut = _ESCAPE_AT_END.sub(r"\1", text[: longest + 1])
        return f'{cut}…"'

    if arguments.startswith(("{", "[")):
        arguments = _STRING.sub(brief, arguments)
    return arguments if len(arguments) <= most else arguments[:most] + "…"


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
