"""Commands made from operations: the fields of a request become arguments and options."""

from __future__ import annotations

import asyncio
import json
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

import click
from pydantic.fields import FieldInfo

from palaver.doors.cli import options, output
from palaver.doors.cli.connection import connect, thread_id_of
from palaver.errors import Invalid, NotFound
from palaver.model.projects import typed_project
from palaver.operations import OPERATIONS
from palaver.operations.operation import Command, Operation

FROM_STDIN = "content"
"""The field that is read from standard input if no argument is given."""
OPTION_PREFIX = "option_"
"""Prefix of hidden options that can replace an argument: --agent A instead of A."""


@cache
def commands_by_name() -> dict[str, tuple[Operation, Command]]:
    return {face.name: (operation, face) for operation in OPERATIONS for face in operation.commands}


def command(name: str) -> click.Command:
    """The command with this full name, e.g. 'thread create'."""
    operation, face = commands_by_name()[name]

    def run(**values: Any) -> None:
        target = options.target_of(click.get_current_context())
        answer = asyncio.run(_answer(target, operation, face, _arguments(operation, face, values)))
        output.show(answer, target.format, columns=face.columns, rows=face.rows, text=face.text)

    return click.Command(
        name.rpartition(" ")[2],
        callback=run,
        params=parameters(operation, face),
        help=operation.description,
        short_help=operation.summary,
        no_args_is_help=any(operation.request.model_fields[field].is_required() for field in face.takes),
    )


def _arguments(operation: Operation, face: Command, values: dict[str, Any]) -> dict[str, Any]:
    """Assign words to arguments that were not given as options: 'show --agent A S' is 'show A S'."""
    named = {name: values.pop(OPTION_PREFIX + name) for name in face.takes}
    words = [word for name in face.takes if (word := values.pop(name)) is not None]
    words += values.pop(face.rest) if face.rest else ()
    for name in face.takes:
        values[name] = words.pop(0) if named[name] is None and words else named[name]
        if values[name] is None and operation.request.model_fields[name].is_required():
            raise click.MissingParameter(param_type="argument", param_hint=f"'{_metavar(name)}'")
    if face.rest:
        values[face.rest] = words
        if not words and operation.request.model_fields[face.rest].is_required() and face.rest != FROM_STDIN:
            raise click.MissingParameter(param_type="argument", param_hint=f"'{face.rest.upper()}…'")
    elif words:
        raise click.UsageError(f"Got unexpected extra argument ({words[0]})")
    return values


async def _answer(target: options.Target, operation: Operation, face: Command, values: dict[str, Any]) -> Any:
    given = {name: value for name, value in values.items() if value is not None and value != ()}
    given |= {name: list(value) for name, value in given.items() if isinstance(value, tuple)}
    for name in face.takes:
        if not str(given.get(name, "-")).strip():
            raise Invalid(f"{name}: must not be empty.")
    if face.rest:
        words = given.get(face.rest, [])
        reads_stdin = face.rest == FROM_STDIN and words in ([], ["-"])
        given[face.rest] = output.read_stdin() if reads_stdin else " ".join(words)
    if "project" in given:
        given["project"] = typed_project(given["project"])
    async with connect(target) as connection:
        if "thread_id" in given:
            try:
                given["thread_id"] = await thread_id_of(connection, given["thread_id"])
            except NotFound:
                if "thread_id" in face.takes:  # as a filter, the operation reports an unknown thread
                    raise
        return await connection.call(operation, given)


# Parameters


def parameters(operation: Operation, face: Command) -> list[click.Parameter]:
    fields = operation.request.model_fields
    found: list[click.Parameter] = []
    for name in face.takes:
        found.append(click.Argument([name], required=False, metavar=_metavar(name), type=_type(fields[name])))
    if face.rest:
        found.append(click.Argument([face.rest], nargs=-1, metavar=face.rest.upper() + "…"))
    named = [name for name in fields if name not in face.takes and name != face.rest]
    found += [_option(name, fields[name], taken=set(fields)) for name in named]
    found += [
        click.Option([*_flags(name, set(fields)), OPTION_PREFIX + name], type=_type(fields[name]), hidden=True)
        for name in face.takes
    ]
    # A field hides a shared option of the same name, which can still be given before the command.
    general = [name for name in options.ALL if name not in named]
    return found + options.make(*general)


def _metavar(name: str) -> str:
    return name.removesuffix("_id").upper()


def _option(name: str, field: FieldInfo, taken: set[str]) -> click.Option:
    kind, many = _kind(field)
    flags = _flags(name, taken)
    help = (field.description or "").strip()
    if many:
        help += " Can be given several times." if kind is dict else " Comma-separated, or given several times."
    if kind is bool:
        return click.Option([f"{flags[0]}/--no-{flags[0][2:]}", name], default=None, help=help)
    if not field.is_required() and field.default not in (None, [], ()):
        help += f" [default: {field.default}]"
    metavar = "JSON" if kind is dict else None
    if typing.get_origin(kind) is typing.Literal:
        metavar = f"[{'|'.join(typing.get_args(kind))}]"
    splits = many and kind is not dict
    return click.Option(
        [*flags, name],
        type=click.STRING if splits else _type(field),
        callback=_comma_list(_type(field)) if splits else None,
        multiple=many,
        required=field.is_required(),
        help=help,
        metavar=metavar,
    )


def _comma_list(kind: click.ParamType[Any]) -> Callable[..., tuple[Any, ...]]:
    """Callback that makes `--keywords a,b` the same as `--keywords a --keywords b`."""

    def split(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[Any, ...]:
        parts = [part.strip() for value in values for part in value.split(",")]
        return tuple(kind.convert(part, option, context) for part in parts if part)

    return split


def _flags(name: str, taken: set[str]) -> list[str]:
    flags = ["--" + name.replace("_", "-")]
    short = name.removesuffix("_id")
    if short != name and short not in taken and short not in options.ALL:
        flags.append("--" + short.replace("_", "-"))
    return flags


def _type(field: FieldInfo) -> click.ParamType[Any]:
    kind, _ = _kind(field)
    if typing.get_origin(kind) is typing.Literal:
        return click.Choice(typing.get_args(kind))
    known: dict[Any, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, dict: Json()}
    return known.get(kind, click.STRING)


def _kind(field: FieldInfo) -> tuple[Any, bool]:
    """The type of one value (a class or a Literal), and whether the field takes several values."""
    kind = _bare(field.annotation)
    if typing.get_origin(kind) is list:
        kind = _bare(typing.get_args(kind)[0])
        return (dict if typing.get_origin(kind) is dict else kind), True
    return (dict if typing.get_origin(kind) is dict else kind), False


def _bare(kind: Any) -> Any:
    """The type without `Annotated[…]` and `… | None`. A union with str counts as str."""
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
            self.fail(f'{value!r} is not JSON. Use for example \'{{"key": "value"}}\'.', param, ctx)
