"""Text that users and models read is plain English: tools, schemas, commands, settings, errors, README headings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest

import palaver
from palaver.doors.cli.main import palaver as root
from palaver.operations import OPERATIONS
from palaver.settings import Settings

SOURCE = Path(palaver.__file__).parent
README = Path(__file__).parents[1] / "README.md"
LONGEST_SENTENCE = 35

PATTERNS = {
    r"(?i)\b(?:anew|nobody|somebody|whoever)\b": "name the subject: the server, an agent, the author …",
    r"\bso many\b|\bso-manieth\b": "write 'at most N', 'every Nth' …",
    r"\b(?:stands|stand)\b(?! out)": "write 'is'",
    r"(?:^|[.:;] )What (?:is|was|are|were) ": "begin with the noun: 'Fields you leave out …'",
    r"(?:^|[.:;] )Who \w+s\b": "begin with the noun: 'An agent that …'",
    r"\bfor good\b": "write 'permanently'",
    r"\bcomes? to be\b": "write 'is created'",
    r"\bat the most\b": "write 'at most' or 'maximum number of'",
}

# Texts that are still to be rewritten. Remove an entry when its text is plain; add none.
KNOWN: set[str] = set()


def schema_texts(name: str, schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for model, part in ((name, schema), *schema.get("$defs", {}).items()):
        for field, about in part.get("properties", {}).items():
            if "description" in about:
                yield f"field {model}.{field}", about["description"]


def command_texts(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    yield f"command {path}", command.help or ""
    for option in command.params:
        if isinstance(option, click.Option) and option.help:
            yield f"command {path} --{option.name}", option.help
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if inner := command.get_command(context, name):
                yield from command_texts(inner, f"{path} {name}".strip())


def error_texts(file: Path) -> Iterator[tuple[str, str]]:
    """The literal texts in `raise Error("…")`, an f-string with … in place of its values."""
    where = f"error {file.relative_to(SOURCE).as_posix()}"
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args:
                match argument:
                    case ast.Constant(value=str(text)):
                        yield where, text
                    case ast.JoinedStr(values):
                        yield where, "".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in values)


def user_visible() -> Iterator[tuple[str, str]]:
    """Every text with the place to find it by."""
    for operation in OPERATIONS:
        yield f"operation {operation.name}", operation.description
        yield from schema_texts(operation.request.__name__, operation.request.model_json_schema())
    yield from command_texts(root, "")
    for setting in fields(Settings):
        yield f"setting {setting.name}", setting.metadata.get("help", "")
    for line in README.read_text("utf-8").splitlines():
        if line.startswith("#"):
            yield "README", line.lstrip("# ")
    for file in sorted(SOURCE.rglob("*.py")):
        yield from error_texts(file)


def complaints(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        line = " ".join(paragraph.split())
        for pattern, advice in PATTERNS.items():
            if found := re.search(pattern, line):
                yield f"'{found[0].strip()}': {advice}"
        for sentence in re.split(r"(?<=[.?!])\s", line):
            if len(sentence.split()) > LONGEST_SENTENCE:
                yield f"a sentence of {len(sentence.split())} words: split it"


def test_user_visible_text_is_plain_english():
    found = {
        f"{place}: {problem}\n    {text}"
        for place, text in user_visible()
        for problem in complaints(text)
        if place not in KNOWN
    }
    assert not found, "\n".join(["rewrite these texts:", *sorted(found)])


@pytest.mark.parametrize(
    "text",
    [
        "Delete a media: nobody finds it any more.",
        "The index is made anew.",
        "At most so many.",
        "What is left out stays as it is.",
        "Who names a thing by its id gets it first.",
        "It is where the word stands.",
        "word " * 40,
    ],
)
def test_bad_patterns_are_found(text: str):
    assert list(complaints(text))


@pytest.mark.parametrize("text", ["What a search finds.", "List agents: who is online.", "Show the standard tools."])
def test_plain_sentences_pass(text: str):
    assert not list(complaints(text))
