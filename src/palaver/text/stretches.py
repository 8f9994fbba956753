"""A text in stretches of a sentence or two: a model that looks at all of it at once misses what is said in passing."""

from __future__ import annotations

import re

LONGEST = 130
MOST_READ = 800
"""Characters of a text that are cut up: of longer ones the beginning says what they are about."""

_END = re.compile(r"(?<=[.!?])\s+|\n+")


def stretches(text: str) -> list[str]:
    """At least one, each of whole sentences where those are not too long."""
    found, now = list[str](), ""
    for sentence in _END.split(text[:MOST_READ]):
        left = sentence.strip()
        while len(left) > 2 * LONGEST:
            at = left.rfind(" ", LONGEST // 2, LONGEST) if " " in left[:LONGEST] else LONGEST
            at = at if at > 0 else LONGEST
            found.append(left[:at])
            left = left[at:].lstrip()
        if now and len(now) + len(left) >= LONGEST:
            found.append(now)
            now = left
        else:
            now = f"{now} {left}".strip()
    return [*found, now] if now or not found else found
