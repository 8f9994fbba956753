"""Makes strange inputs out of good ones, and measures how time grows with length. All of it follows from a seed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from tests.fuzz.parsers import PARSERS, Parser

LONGEST = 4_000
PIECES = tuple(
    piece.encode("utf-8", "surrogatepass")
    for piece in (
        "(", ")", "[", "]", "{", "}", "<", ">", "<!--", "-->", "</", "/>", '"', "'", '"""', "'''", "`", "```\n", "---\n", "\\", "\\u",
        "\\ud800", "\0", "\r", "\n", "\r\n", "\t", " ", ",", ":", ";", "=", "#", "//", "/*", "*/", "*", "&", "&#", "&#x110000;", "&amp",
        "$", "%", "|", "-->", "NEAR(", " AND ", " OR ", " NOT ", "null", "true", "NaN", "-0", "1e999", "9" * 30, "0x", "2023-", "13:61",
        "last ", "between ", "\ufeff", "\u200b", "\u0301", "\u202e", "\ud800", "İ", "ß", "ﷺ", "東", "😀", "\u093f", "ª", "Ⅷ", "sk-", "eyJ",
        "-----BEGIN ", "_PASSWORD=", "@", "![](", "](", "[[", "]]", "<p>", "<script>", "<title>", "<pre>", "<td>", "{{", "}}",
    )
)  # fmt: skip


def strange(parser: Parser, rng: random.Random) -> bytes:
    """A good input with some changes."""
    raw = bytearray(rng.choice(parser.seeds) if parser.seeds else b"x")
    for _ in range(1 + int(rng.expovariate(0.4))):
        at = rng.randint(0, len(raw))
        match rng.randrange(8):
            case 0:
                raw[at:at] = rng.choice(PIECES)
            case 1:
                raw[at:at] = rng.choice(PIECES) * rng.choice((2, 3, 10, 50))
            case 2:
                del raw[at : at + rng.randint(1, 20)]
            case 3:
                raw[at : at + 1] = bytes([rng.randrange(256)])
            case 4:
                start = rng.randint(0, len(raw))
                raw[at:at] = raw[start : start + rng.randint(1, 60)]
            case 5:
                other = rng.choice(parser.seeds) if parser.seeds else b"x"
                raw[at:] = other[rng.randint(0, len(other)) :]
            case 6:
                raw[at : at + rng.randint(0, 4)] = rng.choice(PIECES)
            case 7:
                start, end = sorted((at, rng.randint(0, len(raw))))
                raw[start:end] = bytes(raw[start:end]) * 2
    return bytes(raw[:LONGEST])


def hostile(rng: random.Random | None = None) -> Iterator[tuple[str, bytes, bytes, bytes]]:
    """Shapes that grow: a name, a beginning, a piece to repeat, and an end. With `rng`, made up ones without end."""
    if rng is None:
        for piece in PIECES:
            yield repr(piece), b"", piece, b""
        for piece, end in (
            (b"[", b"]"),
            (b"{", b"}"),
            (b"(", b")"),
            (b'{"a":', b"}"),
            (b"<div>", b"</div>"),
            (b"> ", b""),
        ):
            yield f"nested {piece!r}", b"", piece, end
        for begin, piece in ((b'"', b"a"), (b"'", b"\\"), (b"```", b"a\n"), (b"<a ", b"b=c "), (b"<!--", b"-"), (b"/*", b"*"),
                             (b"---\n", b"a: b\n"), (b"1\n00:00:01,000 --> 00:00:02,000\n", b"x\n"), (b"[", b"1,"), (b"{", b'"a":1,'),
                             (b"a = ", b"["), (b"NEAR(", b"a "), (b"(", b"a OR "), (b"WEBVTT\n\n", b"00:01.000 --> 00:02.000\nx\n\n"),
                             (b"", b"[x](y "), (b"", b"a.b@c."), (b"", b"x-y_z/"), (b"", b"http://"), (b'{"added!', b"!")):  # fmt: skip
            yield f"{begin!r} then {piece!r}", begin, piece, b""
        return
    while True:
        piece = b"".join(rng.choice((*PIECES, b"a", b"b ", b"1", b"x.y")) for _ in range(rng.randint(1, 4)))
        begin = b"".join(rng.choice(PIECES) for _ in range(rng.randint(0, 2)))
        end = rng.choice((b"", b"", rng.choice(PIECES)))
        yield f"{begin!r} then {piece!r} then {end!r}", begin, piece, end


def of_length(length: int, begin: bytes, piece: bytes, end: bytes) -> bytes:
    count = max(1, length // (len(piece) + len(end)))
    return begin + piece * count + end * count


def cpu_seconds(parser: Parser, raw: bytes) -> float:
    began = time.thread_time()
    parser.read(raw)
    return time.thread_time() - began


def growth(parser: Parser, length: int, shape: tuple[bytes, bytes, bytes]) -> tuple[float, float]:
    """The CPU seconds for an input of this length and one four times as long; each the best of three, if it is long."""
    small, large = of_length(length, *shape), of_length(4 * length, *shape)
    first = cpu_seconds(parser, large)
    if first < 0.02:
        return first, first
    return min(cpu_seconds(parser, small) for _ in range(3)), min(first, cpu_seconds(parser, large))


def smaller(parser: Parser, raw: bytes, fails: type[BaseException]) -> bytes:
    """A shorter input that fails in the same way: pieces are left out as long as it does."""

    def does_fail(some: bytes) -> bool:
        try:
            parser.read(some)
        except fails:
            return True
        except Exception:
            return False
        return False

    size = max(1, len(raw) // 2)
    until = time.monotonic() + 10
    while size and time.monotonic() < until:
        at = 0
        while at < len(raw):
            shorter = raw[:at] + raw[at + size :]
            if does_fail(shorter):
                raw = shorter
            else:
                at += size
        size //= 2
    return raw


__all__ = ["PARSERS", "growth", "hostile", "of_length", "smaller", "strange"]
