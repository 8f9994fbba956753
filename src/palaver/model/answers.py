"""Answers that leave out fields with their default value."""

from __future__ import annotations

from typing import ClassVar


class OmitsDefaults:
    """Base of a frozen dataclass without slots. Its JSON omits the fields named in `omit_if_default` if they have their
    default value. They can still be read: the default is an attribute of the class."""

    omit_if_default: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self.omit_if_default:
            if self.__dict__.get(name) == getattr(type(self), name):
                del self.__dict__[name]
