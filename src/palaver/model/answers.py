"""Answers: made from other values, and without the fields that have their default value."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")


def answer_of(kind: type[T], source: object, **others: Any) -> T:
    """A dataclass with the values that another object has under the same names. `others` are its other fields."""
    columns: Any = kind
    same = {one.name: getattr(source, one.name) for one in fields(columns) if hasattr(source, one.name)}
    return kind(**same | others)


class OmitsDefaults:
    """Base of a frozen dataclass without slots. Its JSON omits the fields named in `omit_if_default` if they have their
    default value. They can still be read: the default is an attribute of the class."""

    omit_if_default: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self.omit_if_default:
            if self.__dict__.get(name) == getattr(type(self), name):
                del self.__dict__[name]
