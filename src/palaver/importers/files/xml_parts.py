"""Stream XML from untrusted files: no entity definitions, nothing fetched, nothing kept in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO
from xml.parsers import expat

from palaver.importers import Unreadable

Start = Callable[[str, dict[str, str]], None]
End = Callable[[str], None]
Text = Callable[[str], None]


class Enough(Exception):
    """Raised by a callback to stop the parser."""


def parse(source: BinaryIO, start: Start, end: End, text: Text) -> None:
    """Call the callbacks for each tag and text; names have no namespaces. Raises Unreadable where it is not XML."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True

    def refuse(*_: object) -> None:
        raise Unreadable("XML that defines entities of its own; nothing more of it is read")

    def begin(name: str, attributes: dict[str, str]) -> None:
        start(_local(name), {_local(key): value for key, value in attributes.items()})

    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda name: end(_local(name))
    parser.CharacterDataHandler = text
    try:
        parser.ParseFile(source)
    except Enough:
        return
    except (expat.ExpatError, ValueError, LookupError) as problem:
        if isinstance(problem, Unreadable):
            raise
        raise Unreadable("damaged: a part of it is not XML") from None


def _local(name: str) -> str:
    return name.rpartition(" ")[2]
