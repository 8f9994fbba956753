"""Answers that leave out fields with their default value."""

from __future__ import annotations

from typing import ClassVar


class Sparse:
    """Base of a frozen dataclass without slots. Its JSON omits the fields named in `sparse` if they have their default
    value. They can still be read: the default is an attribute of the class."""

    sparse: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self.sparse:
            if self.__dict__.get(name) == getattr(type(self), name):
                del self.__dict__[name]
