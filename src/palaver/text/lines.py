"""Lines of code as a formatter leaves them: blanks, quotes and trailing commas do not count."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TRAILING_COMMA = re.compile(r",(?=[)\]}])")


def squeezed(line: str) -> str:
    return "".join(line.split()).replace("'", '"').rstrip(",;")


def joined(lines: Iterable[str]) -> str:
    """Lines as they are wherever a formatter breaks them."""
    return _TRAILING_COMMA.sub("", "".join("".join(line.split()) for line in lines).replace("'", '"'))
