"""Control characters in stored text: they move the cursor of a terminal, change its title, or turn text around."""

from __future__ import annotations

import re

SIGNS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""C0 and C1 codes, but for tabs and line breaks, and marks of direction. They are for a set in a regular expression."""

_CONTROL = re.compile(f"\x1b\\[[0-?]*[ -/]*[@-~]|[{SIGNS}]")


def without_control_characters(text: str) -> str:
    """The text without control characters, and without the colours of terminals."""
    return _CONTROL.sub("", text)
