"""Ids: random UUIDs in the order of time, so that database indexes grow at their end.

They are UUIDs of version 8 (RFC 9562) with decimal digits only, because language models read many of them. A tokenizer
splits digits in threes, so an id costs about 17 tokens (o200k); one of version 7 costs 25.
"""

from __future__ import annotations

import os
import time

EPOCH_MILLIS = 1_577_836_800_000
"""2020-01-01 in Unix milliseconds. Twelve digits of milliseconds from then last until 2051."""


def new_id() -> str:
    """A new UUID: 12 digits of time, then 19 random digits around the version and variant digits."""
    at = f"{max(time.time_ns() // 1_000_000 - EPOCH_MILLIS, 0):012d}"
    random = f"{int.from_bytes(os.urandom(12), 'big') % (2 * 10**18):019d}"
    return f"{at[:8]}-{at[8:12]}-8{random[1:4]}-{8 + int(random[0])}{random[4:7]}-{random[7:]}"


def age_of(id: str) -> float | None:
    """Seconds since an id was made, by the clock of this machine; None if `new_id` did not make it."""
    digits = id.replace("-", "")
    if len(digits) != 32 or not (digits.isascii() and digits.isdigit()):
        return None
    return time.time() - (int(digits[:12]) + EPOCH_MILLIS) / 1000
