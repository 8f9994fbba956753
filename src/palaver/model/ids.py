"""Ids for everything that is stored: random, and in the order of time, so that indexes grow at their end.

They are UUIDs of version 8 (RFC 9562) that have only decimal digits, because language models read them all day: a
tokenizer splits digits in threes, so such an id costs about 17 tokens (o200k) where one of version 7 costs 25.
"""

from __future__ import annotations

import os
import time

EPOCH_MILLIS = 1_577_836_800_000
"""2020-01-01 in Unix milliseconds. Twelve digits of milliseconds from there last until 2051."""


def new_id() -> str:
    """A new UUID: 12 digits of time, then 19 random ones around the marks of version and variant."""
    at = f"{max(time.time_ns() // 1_000_000 - EPOCH_MILLIS, 0):012d}"
    random = f"{int.from_bytes(os.urandom(12), 'big') % (2 * 10**18):019d}"
    return f"{at[:8]}-{at[8:12]}-8{random[1:4]}-{8 + int(random[0])}{random[4:7]}-{random[7:]}"
