"""Commands from operations: the face says what stands where, the ask's fields become arguments and options."""

from __future__ import annotations

import asyncio
import json
import sys
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

import click
from pydantic.fields import FieldInfo

from palaver.doors.cli import output, target
from palaver.doors.cli.connection import Reach, reach, thread_id_of
from palaver.errors import Invalid, NotFound
from palaver.model.projects import typed_project
from palaver.operations import OPERATIONS
from palaver.operations.operation import Command, Operation

FROM_STDIN = "content"  # the field that is read from stdin where nothing is given
BY_NAME = "by_name_"  # what has its place on the line, said by name instead


@cache
def by_name() -> dict[str, tuple[Operation, Command]]:
    return {face.name: (operation, face) for operation in OPERATIONS for face in operation.commands}


def command(name: str) -> click.Command:
    """The command of this full name, e.g. 'thread create'."""
    operation, face = by_name()[name]

    def run(**values: Any) -> None:
        where = target.here(click.get_current_context())
        answer = asyncio.run(_answer(where, operation, face, _placed(operation, face, values)))
        output.show(answer, where.format, columns=face.columns, rows=face.rows, text=face.text)

    return click.Command(
        name.rpartition(" ")[2],
        callback=run,
        params=parameters(operation, face),
        help=operation.description,
        short_help=operation.summary,
        no_args_is_help=any(operation.ask.model_fields[field].is_required() for field in face.takes),
    )


def _placed(operation: Operation, face: Command, values: dict[str, Any]) -> dict[str, Any]:
    """What was said by name leaves its place to the next: 'show --agent A S' is 'show A S'."""
    named = {name: values.pop(BY_NAME + name) for name in face.takes}
    words = [word for name in face.takes if (word := values.pop(name)) is not None]
    words += values.pop(face.rest) if face.rest else ()
    for name in face.takes:
        values[name] = words.pop(0) if named[name] is None and words else named[name]
        if values[name] is None and operation.ask.model_fields[name].is_required():
            raise click.MissingParameter(param_type="argument", param_hint=f"'{_metavar(name)}'")
    if face.rest:
        values[face.rest] = words
        if not words and _needed(operation, face):
            raise click.MissingParameter(param_type="argument", param_hint=f"'{face.rest.upper()}…'")
    elif words:
        raise click.UsageError(f"Got unexpected extra argument ({words[0]})")
    return values


async def _answer(where: target.Where, operation: Operation, face: Command, values: dict[str, Any]) -> Any:
    given = {name: value for name, value in values.items() if value is not None and value != ()}
    given |= {name: list(value) for name, value in given.items() if isinstance(value, tuple)}
    for name in face.takes:
        if not str(given.get(name, "-")).strip():
            raise Invalid(f"{name}: must not be empty.")
    if face.rest:
        given[face.rest] = _rest(face.rest, given.get(face.rest, []))
    if "project" in given:
        given["project"] = typed_project(given["project"])
    async with reach(where) as there:
        if "thread_id" in given:
            given["thread_id"] = await _thread_id(there, given["thread_id"], face)
        return await there.ask(operation, given)


async def _thread_id(there: Reach, given: str, face: Command) -> str:
    try:
        return await thread_id_of(there, given)
    except NotFound:
        if "thread_id" in face.takes:
            raise
        return given  # where a thread only narrows, the operation says what it makes of it


def _rest(name: str, words: list[str]) -> str:
    if name != FROM_STDIN or (words and words != ["-"]):
        return " ".join(words)
    if sys.stdin.isatty():
        output.note("Write the text, then press Ctrl-D.")
    try:
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise Invalid("The text on standard input is not UTF-8.") from None


# Parameters


def parameters(operation: Operation, face: Command) -> list[click.Parameter]:
    fields = operation.ask.model_fields
    found: list[click.Parameter] = []
    for name in face.takes:
        found.append(click.Argument([name], required=False, metavar=_metavar(name), type=_type(fields[name])))
    if face.rest:
        found.append(click.Argument([face.rest], nargs=-1, metavar=face.rest.upper() + "…"))
    named = [name for name in fields if name not in face.takes and name != face.rest]
    found += [_option(name, fields[name], taken=set(fields)) for name in named]
    found += [
        click.Option([*_flags(name, set(fields)), BY_NAME + name], type=_type(fields[name]), hidden=True)
        for name in face.takes
    ]
    # A field of the same name goes first; the general option can still stand before the command.
    general = [name for name in target.EVERYWHERE if name not in named]
    return found + target.options(*general)


def _needed(operation: Operation, face: Command) -> bool:
    """Whether there must be a rest of the line."""
    return face.rest is not None and operation.ask.model_fields[face.rest].is_required() and face.rest != FROM_STDIN


def _metavar(name: str) -> str:
    return name.removesuffix("_id").upper()


def _option(name: str, field: FieldInfo, taken: set[str]) -> click.Option:
    kind, many = _kind(field)
    flags = _flags(name, taken)
    help = (field.description or "").strip()
    if many:
        help += " May be given several times." if kind is dict else " Several: with commas, or give it again."
    if kind is bool:
        return click.Option([f"{flags[0]}/--no-{flags[0][2:]}", name], default=None, help=help)
    if not field.is_required() and field.default not in (None, [], ()):
        help += f" [default: {field.default}]"
    splits = many and kind is not dict
    return click.Option(
        [*flags, name],
        type=click.STRING if splits else _type(field),
        callback=_split_at_commas(_type(field)) if splits else None,
        multiple=many,
        required=field.is_required(),
        help=help,
        metavar=_shown(kind),
    )


def _split_at_commas(kind: click.ParamType[Any]) -> Callable[..., tuple[Any, ...]]:
    """`--keywords a,b` is the same as `--keywords a --keywords b`."""

    def split(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[Any, ...]:
        parts = [part.strip() for value in values for part in value.split(",")]
        return tuple(kind.convert(part, option, context) for part in parts if part)

    return split


def _flags(name: str, taken: set[str]) -> list[str]:
    flags = ["--" + name.replace("_", "-")]
    short = name.removesuffix("_id")
    if short != name and short not in taken and short not in target.EVERYWHERE:
        flags.append("--" + short.replace("_", "-"))
    return flags


def _shown(kind: Any) -> str | None:
    if typing.get_origin(kind) is typing.Literal:
        return f"[{'|'.join(typing.get_args(kind))}]"
    return "JSON" if kind is dict else None


def _type(field: FieldInfo) -> click.ParamType[Any]:
    kind, _ = _kind(field)
    if typing.get_origin(kind) is typing.Literal:
        return click.Choice(typing.get_args(kind))
    known: dict[Any, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, dict: Json()}
    return known.get(kind, click.STRING)


def _kind(field: FieldInfo) -> tuple[Any, bool]:
    """What one value is (a type, or a Literal), and whether there may be several."""
    kind = _bare(field.annotation)
    if typing.get_origin(kind) is list:
        kind = _bare(typing.get_args(kind)[0])
        return (dict if typing.get_origin(kind) is dict else kind), True
    return (dict if typing.get_origin(kind) is dict else kind), False


def _bare(kind: Any) -> Any:
    """Without `Annotated[…]` and `… | None`; where a number or a text will do, what is typed is text."""
    if typing.get_origin(kind) is typing.Annotated:
        return _bare(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        choices = [_bare(choice) for choice in typing.get_args(kind) if choice is not types.NoneType]
        return str if str in choices else choices[0]
    return kind


class Json(click.ParamType[Any]):
    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return json.loads(value)
        except ValueError:
            self.fail(f'{value!r} is not JSON. It looks like \'{{"key": "value"}}\'.', param, ctx)
