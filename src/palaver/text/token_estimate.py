"""An estimate of the tokens of a text, made to be rather too high than too low.

The real number depends on the model. The estimate is compared with OpenAI's o200k_base in the tests.
"""

from __future__ import annotations

import re

_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+|[ ]|\s+|[^\x00-\x7f]|.", re.DOTALL)


def estimate_tokens(text: str) -> int:
    tokens = 0.0
    for found in _PARTS.finditer(text):
        part = found[0]
        first = part[0]
        if part == " ":
            continue
        if first.isascii() and first.isalpha():
            tokens += 1 + max(0, len(part) - 6) / 3
        elif first.isascii() and first.isdigit():
            tokens += 0.5 + len(part) / 2
        elif first.isascii():
            tokens += 1
        elif first > "\uffff":
            tokens += 2.5
        else:
            tokens += 1 if "\u2e80" <= first <= "\uffff" else 0.6
    return int(tokens) + 1
