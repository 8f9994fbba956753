"""The checksum that is stored with a text, so that a text that was changed on the disk is noticed."""

from __future__ import annotations

import zlib


def checksum_of(text: str) -> int:
    return checksum_of_bytes(text.encode("utf-8", "surrogatepass"))


def checksum_of_bytes(raw: bytes) -> int:
    """A number that fits into 32 bits with a sign."""
    return zlib.crc32(raw) - (1 << 31)
