"""Commands made from operations: the fields of a request become arguments and options.

`commands.json` describes them, so that a command needs no slow imports. `make reference` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from palaver.doors.cli import options, output
from palaver.doors.cli.ask import ask
from palaver.doors.cli.options import ThreadOption
from palaver.errors import Invalid
from palaver.model.projects import typed_project

FROM_STDIN = "content"
"""The field that is read from standard input if no argument is given."""
OPTION_PREFIX = "option_"
"""Prefix of hidden options that can replace an argument: --agent A instead of A."""

WAIT_READ: list[click.Parameter] = [
    click.Option(
        ["--wait-read"],
        is_flag=True,
        help="Wait until every agent that it names has read it or cannot be reached. Prints the receipts.",
    )
]
"""An option of `post`."""
MOST_WAIT = 86_400
RECEIPT_COLUMNS = ["name", "state", "way", "turn", "reason"]

Description = dict[str, Any]
"""A command as `commands.json` describes it."""


def command(name: str, about: Description) -> click.Command:
    """The command with this full name, e.g. 'thread create'."""
    fields = {field["name"]: field for field in about["fields"]}

    def run(**values: Any) -> None:
        target = options.target_of(click.get_current_context())
        waits = values.pop("wait_read", False)
        given = _request(about, _arguments(about, fields, values))
        thread: ThreadOption = "required" if "thread_id" in about["takes"] else "filter"
        answer = ask(target, about["operation"], given, thread)
        if waits:
            answer = ask(target, "bus.receipts:get_receipts", {"message_id": answer["id"], "wait_s": MOST_WAIT})
            return output.show(answer, target.format, columns=RECEIPT_COLUMNS, rows="receipts", text=None)
        output.show(answer, target.format, columns=about["columns"], rows=about["rows"], text=about["text"])

    return click.Command(
        name.rpartition(" ")[2],
        callback=run,
        params=parameters(about) + (WAIT_READ if name == "post" else []),
        help=about["description"],
        short_help=about["summary"],
        no_args_is_help=any(fields[field]["is_required"] for field in about["takes"]),
    )


def _arguments(about: Description, fields: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Assign words to arguments that were not given as options: 'show --agent A S' is 'show A S'."""
    takes, rest = about["takes"], about["rest"]
    named = {name: values.pop(OPTION_PREFIX + name) for name in takes}
    words = [word for name in takes if (word := values.pop(name)) is not None]
    words += values.pop(rest) if rest else ()
    for name in takes:
        values[name] = words.pop(0) if named[name] is None and words else named[name]
        if values[name] is None and fields[name]["is_required"]:
            raise click.MissingParameter(param_type="argument", param_hint=f"'{_metavar(name)}'")
    if rest:
        values[rest] = words
        if not words and fields[rest]["is_required"] and rest != FROM_STDIN:
            raise click.MissingParameter(param_type="argument", param_hint=f"'{rest.upper()}…'")
    elif words:
        raise click.UsageError(f"Got unexpected extra argument ({words[0]})")
    return values


def _request(about: Description, values: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in values.items() if value is not None and value != ()}
    given = {**about.get("defaults", {}), **given}
    given |= {name: list(value) for name, value in given.items() if isinstance(value, tuple)}
    for name in about["takes"]:
        if not str(given.get(name, "-")).strip():
            raise Invalid(f"{name}: must not be empty.")
    if rest := about["rest"]:
        words = given.get(rest, [])
        reads_stdin = rest == FROM_STDIN and words in ([], ["-"])
        given[rest] = output.read_stdin() if reads_stdin else " ".join(words)
    if "project" in given:
        given["project"] = typed_project(given["project"])
    return given


# Parameters


def parameters(about: Description) -> list[click.Parameter]:
    fields = {field["name"]: field for field in about["fields"]}
    takes, rest = about["takes"], about["rest"]
    found: list[click.Parameter] = []
    for name in takes:
        found.append(click.Argument([name], required=False, metavar=_metavar(name), type=_type(fields[name])))
    if rest:
        found.append(click.Argument([rest], nargs=-1, metavar=rest.upper() + "…"))
    named = [name for name in fields if name not in takes and name != rest]
    found += [_option(fields[name], taken=set(fields)) for name in named]
    found += [
        click.Option([*_flags(name, set(fields)), OPTION_PREFIX + name], type=_type(fields[name]), hidden=True)
        for name in takes
    ]
    # A field hides a shared option of the same name, which can still be given before the command.
    general = [name for name in options.ALL if name not in named]
    return found + options.make(*general)


def _metavar(name: str) -> str:
    return name.removesuffix("_id").upper()


def _option(field: dict[str, Any], taken: set[str]) -> click.Option:
    name, kind, many = field["name"], field["kind"], field["is_list"]
    flags = _flags(name, taken)
    help = field["help"]
    if many:
        help += " Can be given several times." if kind == "json" else " Comma-separated, or given several times."
    if kind == "bool":
        return click.Option([f"{flags[0]}/--no-{flags[0][2:]}", name], default=None, help=help)
    if field["default"] is not None:
        help += f" [default: {field['default']}]"
    metavar = "JSON" if kind == "json" else None
    if isinstance(kind, list):
        metavar = f"[{'|'.join(kind)}]"
    splits = many and kind != "json"
    return click.Option(
        [*flags, name],
        type=click.STRING if splits else _type(field),
        callback=_comma_list(_type(field)) if splits else None,
        multiple=many,
        required=field["is_required"],
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


def _type(field: dict[str, Any]) -> click.ParamType[Any]:
    kind = field["kind"]
    if isinstance(kind, list):
        return click.Choice(kind)
    known: dict[str, click.ParamType[Any]] = {"int": click.INT, "float": click.FLOAT, "json": Json()}
    return known.get(kind, click.STRING)


class Json(click.ParamType[Any]):
    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return json.loads(value)
        except ValueError:
            self.fail(f'{value!r} is not JSON. Use for example \'{{"key": "value"}}\'.', param, ctx)
