"""Requests: their base class, and field types that validate values.

Numbers out of range are clamped. Text that a database cannot store is refused, with the name of the field.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypeVar, get_args

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    create_model,
)

from palaver.errors import Invalid
from palaver.model.times import parse, zone_of

MAX_TEXT = 1_000_000
MOST_ITEMS = 200
"""How many items a list has at most, unless its type says otherwise."""
MOST_ERRORS = 10
"""At most this many invalid fields are named in one error."""
FROM_TEXT = "from text"

NEVER_STORED = re.compile("[\x00\ud800-\udfff]")
_SURROGATES = re.compile("[\ud800-\udfff]")


class Request(BaseModel):
    """Base of all requests. A request is validated once, at the door, and passed on as one object."""

    # Validators are built on first use: each CLI call starts a process that needs only one of them.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True)


def request_of(name: str, bases: tuple[type[Request], ...], /, **fields: Any) -> type[Request]:
    """A request that is made from its fields. Without the option, Pydantic looks for its source text in every module,
    and a server needs a fifth more time to start."""
    return create_model(name, __base__=bases, __cls_kwargs__={"use_attribute_docstrings": False}, **fields)


class NoArguments(Request):
    """A request without arguments."""


RequestT = TypeVar("RequestT", bound=Request)


UNSTORABLE = "must not contain NUL characters or lone surrogates; remove them and send it again"


def storable(text: str) -> str:
    if NEVER_STORED.search(text):
        raise ValueError(UNSTORABLE)
    return text


def _without_surrogates(value: Any) -> Any:
    """Remove lone surrogates from a query: no stored text has any."""
    return _SURROGATES.sub("", value) if isinstance(value, str) else value


JsonT = TypeVar("JsonT")


def _storable_json(value: JsonT) -> JsonT:
    try:
        encoded = orjson.dumps(value)
    except (TypeError, ValueError, RecursionError):
        raise ValueError("must be plain JSON without lone surrogates, not nested deeper than 250 levels") from None
    if len(encoded) > 256 * 1024:
        raise ValueError("must be at most 256 KiB of JSON")
    return value


def clamp(low: int, high: int) -> BeforeValidator:
    """`Annotated[int, clamp(1, 200)]`: a whole number, moved to the nearest bound when it is out of range."""

    def clamped(value: Any, info: ValidationInfo) -> int:
        if info.context == FROM_TEXT and isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,4000}\s*", value):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError("must be a whole number")
        return min(max(value, low), high)

    return BeforeValidator(clamped)


def _time(text: str) -> str:
    try:
        parse(text, end_of_day=True)
    except (ValueError, OverflowError):
        raise ValueError("must be a time as in 2026-06-01T10:00:00Z, or a date") from None
    return text


def _time_if_any(text: str) -> str | None:
    return _time(text) if text.strip() else None


def _zone_if_any(name: str) -> str | None:
    if not name.strip():
        return None
    try:
        zone_of(name)
    except ValueError:
        raise ValueError("must be a time zone as in Europe/Berlin, or an offset as in +02:00") from None
    return name


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


NotBlank = AfterValidator(_not_blank)
Trimmed = AfterValidator(str.strip)
Text = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(storable)]
Line = Annotated[str, Field(max_length=1000), AfterValidator(storable)]
Id = Annotated[str, Field(max_length=256), AfterValidator(storable)]
Names = Annotated[list[Line], Field(max_length=MOST_ITEMS)]
Ids = Annotated[list[Id], Field(max_length=MOST_ITEMS)]
Project = Annotated[str, Field(max_length=1000), AfterValidator(storable), NotBlank]
Query = Annotated[str, BeforeValidator(_without_surrogates), Field(max_length=100_000)]
Metadata = Annotated[dict[str, Any], AfterValidator(_storable_json)]
Records = Annotated[list[dict[str, Any]], Field(max_length=MOST_ITEMS), AfterValidator(_storable_json)]
"""Several JSON objects. The limits of one hold for all of them together."""
Seq = Annotated[int, clamp(0, 2**53)]
Time = Annotated[str, Field(max_length=64), AfterValidator(_time)]
Date = Annotated[str, Field(max_length=64), AfterValidator(_time_if_any)]
"""A time bound of a search. Empty text means absent: many clients send it for an empty field."""
TimeZone = Annotated[str, Field(max_length=64), AfterValidator(_zone_if_any)]
"""A time zone. Empty text means absent."""


def read(kind: type[RequestT], given: dict[str, Any], *, refuse_unknown: bool) -> RequestT:
    """Validate JSON arguments. `null` means absent; unknown names are refused (tools) or ignored (REST)."""
    given = {name: value for name, value in given.items() if value is not None}
    unknown = [name for name in given if name not in kind.model_fields]
    if unknown and refuse_unknown:
        raise Invalid(_unknown(unknown[0], kind))
    for name in unknown:
        del given[name]
    try:
        return kind.model_validate(given)
    except ValidationError as problem:
        raise Invalid(_explain(problem, kind)) from None


def is_true(value: Any, name: str) -> bool:
    """Validate a boolean argument that is not a field of the request."""
    if not isinstance(value, bool):
        raise Invalid(f"{name}: must be true or false.")
    return value


def read_strings(kind: type[RequestT], given: dict[str, Any]) -> RequestT:
    """Validate arguments from a query string. All are text; objects are JSON."""
    fields = kind.model_fields
    given = {name: _written_out(value, fields[name].annotation) for name, value in given.items() if name in fields}
    try:
        return kind.model_validate(given, strict=False, context=FROM_TEXT)
    except ValidationError as problem:
        raise Invalid(_explain(problem, kind)) from None


def _written_out(value: Any, annotation: Any) -> Any:
    if isinstance(value, str) and any(_models_in(annotation)):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def _unknown(name: str, kind: type[BaseModel]) -> str:
    known = sorted(kind.model_fields)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    advice = f"Did you mean '{near[0]}'?" if near else f"Known arguments: {', '.join(known) or 'none'}."
    return f"Unknown argument '{name}'. {advice}"


_IN_PLAIN_WORDS = {
    "missing": "is required",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
    "string_unicode": UNSTORABLE,
    "string_type": "must be text",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
}


def _explain(problem: ValidationError, kind: type[BaseModel]) -> str:
    """The error for invalid arguments: the name of each field, and its allowed values."""
    said = []
    errors = problem.errors(include_url=False)
    for error in errors[:MOST_ERRORS]:
        # For a choice of types, pydantic adds the type that did not fit: it ends with a bracket.
        where = ".".join(str(part) for part in error["loc"] if not str(part).endswith("]")) or "arguments"
        what = error["msg"].removeprefix("Value error, ")
        match error["type"]:
            case kind_of_error if kind_of_error in _IN_PLAIN_WORDS:
                what = _IN_PLAIN_WORDS[kind_of_error]
            case "too_long" if isinstance(error["input"], list | dict):
                what = f"must have at most {error['ctx']['max_length']:,} items"
            case "string_too_long" | "too_long" if error["ctx"].get("field_type", "Value") == "Value":
                what = f"must have at most {error['ctx']['max_length']:,} characters"
            case "literal_error" | "enum":
                what = f"must be {error['ctx']['expected']}"
            case "string_pattern_mismatch":
                what = f"must match {error['ctx']['pattern']}"
            case "extra_forbidden":
                *outer, name = error["loc"]
                where = ".".join(map(str, outer)) or "arguments"
                what = _unknown(str(name), _model_at(kind, outer)).rstrip(".")
        said.append(f"{where}: {what}")
    if len(errors) > MOST_ERRORS:
        said.append(f"and {len(errors) - MOST_ERRORS:,} more")
    text = "; ".join(said)
    return text if text.endswith("?") else f"{text}."


def _model_at(kind: type[BaseModel], path: Iterable[Any]) -> type[BaseModel]:
    """The model at this path inside another model."""
    for part in path:
        field = kind.model_fields.get(part) if isinstance(part, str) else None
        kind = next(_models_in(field.annotation), kind) if field else kind
    return kind


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _number_or_text(id: Any) -> Any:
    if isinstance(id, float) and id.is_integer():
        return int(id)
    if isinstance(id, bool) or not isinstance(id, int | str):
        raise ValueError("must be a whole number or text")
    return id


def _short_enough(id: int | str) -> int | str:
    if len(str(id)) > 512:
        raise ValueError("must be at most 512 characters")
    if isinstance(id, int):
        return id if -(2**63) <= id < 2**63 else str(id)
    return storable(id)


AnyId = Annotated[int | str, BeforeValidator(_number_or_text), AfterValidator(_short_enough)]
"""An id of a library item: a number or a text."""
TextId = Annotated[AnyId, WithJsonSchema({"type": "string"})]
NumberId = Annotated[AnyId, WithJsonSchema({"type": "integer"})]
"""Ids that are texts, or numbers. The other form is accepted too."""
