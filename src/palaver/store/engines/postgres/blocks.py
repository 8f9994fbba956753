"""Blocks of passages with neighbouring ids. If very many passages match, the newest blocks are enough.

GIN cannot read the newest matches first: without blocks, all matches of a common word would be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import TypeVar

from palaver.store.engines.database import SCOPE, Connection

BLOCK, LARGE_BLOCK = 8_192, 131_072
"""The number of ids in a block of passages, and in a large one. Each block has a lexeme of its own."""
MANY_MATCHES = 1.25
"""If there may be this many times more matches than wanted, they are looked up in the newest blocks."""
MORE_THAN_EXPECTED = 1.1
"""How many more passages are looked at than should be necessary."""
MOST_BLOCKS = 16
"""GIN compares each match with all blocks that it is given: 60 blocks took longer than reading all matches."""
MOST_OF_ALL = 0.85
"""If more of all blocks than this are necessary, all matches are looked up."""
T = TypeVar("T")


def block_token(passage_id: int, size: int) -> str:
    """The lexeme of all passages in the block of a passage: passages whose ids are next to each other."""
    return f"{SCOPE}{'block' if size == BLOCK else 'largeblock'}{passage_id // size}"


def block_tokens(passage_id: int) -> tuple[str, str]:
    return block_token(passage_id, BLOCK), block_token(passage_id, LARGE_BLOCK)


def newest_first(
    connection: Connection,
    look_up: Callable[[Sequence[str]], T],
    count: Callable[[T], int],
    wanted: int,
    share: float,
    passages: int,
) -> T:
    """Look up matches. If very many passages match, look in the newest blocks of passages only.

    `passages` is about how many there are, and `share` which part of them match. `look_up` gets the condition on the
    blocks.
    """
    if share * passages < MANY_MATCHES * wanted:
        return look_up(())
    newest = connection.fetch(connection.dialect.sql("newest_indexed"), {})[0]["id"]
    for _ in range(2):
        ids = MORE_THAN_EXPECTED * wanted / share
        size = BLOCK if ids <= MOST_BLOCKS * BLOCK else LARGE_BLOCK
        blocks = 1 + ceil(ids / size)  # the newest block is not full
        if blocks > 1 + MOST_BLOCKS or blocks * size > MOST_OF_ALL * newest:
            break
        tokens = [f"'{block_token(newest - number * size, size)}'" for number in range(blocks)]
        found = look_up([f"({' | '.join(tokens)})"])
        if count(found) >= wanted:
            return found
        share = max(count(found), 1) / (blocks * size)
    return look_up(())
