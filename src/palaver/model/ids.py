"""Ids that are handed out: random, but in the order of time, so that indexes grow at their end."""

from __future__ import annotations

import os
import time
from uuid import UUID


def new_id() -> str:
    """A UUID of version 7."""
    millis = time.time_ns() // 1_000_000
    number = (millis << 80) | int.from_bytes(os.urandom(10), "big")
    number = number & ~(0xF << 76) | (0x7 << 76)  # version
    number = number & ~(0x3 << 62) | (0x2 << 62)  # variant
    return str(UUID(int=number))
