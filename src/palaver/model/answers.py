"""Answers with fields that are only there when there is something to say."""

from __future__ import annotations

from typing import ClassVar


class Sparse:
    """Base of a frozen dataclass without slots. The fields named in `sparse` are left out of its JSON while they have
    their default. They can still be read: the default is an attribute of the class."""

    sparse: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self.sparse:
            if self.__dict__.get(name) == getattr(type(self), name):
                del self.__dict__[name]
