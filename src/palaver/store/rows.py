"""Rows of the database as dataclasses, and dataclasses as parameters of statements.

A column has the name of its field. Times are stored in microseconds, lists and objects as JSON, truth values as 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from datetime import datetime
from functools import lru_cache
from types import UnionType
from typing import Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import orjson

from palaver.model.times import instant, micros

T = TypeVar("T")


class _Column(NamedTuple):
    name: str
    convert: Callable[[Any], Any] | None
    """Makes the value of the field from that of the column; None if both are the same."""
    has_default: bool


def from_row(kind: type[T], row: Mapping[str, Any], **others: Any) -> T:
    """The row as a dataclass. `others` are fields whose column has another name. Of the rest, a field without a column
    has its default value, or else is None."""
    for name, convert, has_default in _columns_of(cast(Any, kind)):
        if name in others:
            continue
        if name in row:
            value = row[name]
            others[name] = value if value is None or convert is None else convert(value)
        elif not has_default:
            others[name] = None
    return kind(**others)


def params_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass as the database stores them, by name."""
    return {field.name: stored(getattr(value, field.name)) for field in fields(value)}


def stored(value: Any) -> Any:
    """A value as the database stores it."""
    if isinstance(value, datetime):
        return micros(value)
    return orjson.dumps(value).decode() if isinstance(value, list | tuple | dict) else value


@lru_cache(maxsize=256)
def _columns_of(kind: type[Any]) -> list[_Column]:
    hints = get_type_hints(kind)
    return [_Column(field.name, _converter(hints[field.name]), _has_default(field)) for field in fields(kind)]


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    plain = {get_origin(one) or one for one in kinds}
    if datetime in plain:
        return instant
    if bool in plain:
        return bool
    if tuple in plain:
        return lambda value: tuple(_from_json(value))
    return _from_json if plain & {list, dict} else None


def _from_json(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, str | bytes) else value
