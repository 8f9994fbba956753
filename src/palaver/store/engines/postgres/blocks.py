"""Blocks of passages with neighbouring ids. If very many passages match, the newest blocks are enough.

GIN cannot read the newest matches first: without blocks, all matches of a common word would be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, inf
from typing import NamedTuple, TypeVar

from palaver.store.engines.database import SCOPE, Connection

BLOCK, LARGE_BLOCK = 8_192, 131_072
"""The number of ids in a block of passages, and in a large one. Each block has a lexeme of its own."""
MANY_MATCHES = 1.25
"""If there may be this many times more matches than wanted, they are looked up in the newest blocks."""
MORE_THAN_EXPECTED = 1.1
"""How many more passages are looked at than should be necessary."""
MOST_BLOCKS = 24
"""GIN compares each match with each of the blocks that it is given."""
READ, COMPARED, COMPARED_IN_BLOCKS = 5.0, 0.3, 2.0
"""How many microseconds it takes to read a match, and to compare a passage that has the rarest term: with the other
terms only, and with blocks, too."""
READ_NEIGHBOUR, COLLECTED, COLLECTED_OF_MANY = 3.0, 0.1, 1.0
"""The same to check a passage of a block for the beginning of a word, and to collect one from the index."""
MANY_COLLECTED = 50_000
"""The server remembers so many exactly. Of more it remembers pages, and checks all passages there again."""
QUICKLY = 100_000
"""If a lookup of all that is wanted would take more microseconds, and fewer are enough, fewer blocks are looked in."""
T = TypeVar("T")


def block_tokens(passage_id: int) -> tuple[str, str]:
    """The lexemes of the blocks of a passage. All passages of a block have them: their ids are next to each other."""
    return _token(passage_id // BLOCK, BLOCK), _token(passage_id // LARGE_BLOCK, LARGE_BLOCK)


def any_block(numbers: Iterable[int], size: int) -> str:
    """The condition that a passage is in one of these blocks."""
    return "(" + " | ".join(f"'{_token(number, size)}'" for number in numbers) + ")"


def _token(number: int, size: int) -> str:
    return f"{SCOPE}{'block' if size == BLOCK else 'largeblock'}{number}"


class Matches(NamedTuple):
    """How many passages match a query, as far as that is known before."""

    passages: int
    """About how many there are in the index."""
    likely: float
    """About which share of them matches."""
    most: float
    """Which share matches at most."""
    begun: float = 0.0
    """Which share has a word with the beginning that is asked for. GIN would collect all of them."""
    others: float = 1.0
    """Which share meets the other conditions."""

    @property
    def checks_beginnings(self) -> bool:
        """Is it faster to read the passages that meet the other conditions, and to check their words?"""
        return READ * self.others < self._cost(self.likely)

    def cost(self, share: float, ids: int) -> float:
        """How long it takes to look up all matches, if `share` of the passages match."""
        return min(self._cost(share), READ * self.others if self.begun else inf) * ids

    def _cost(self, share: float) -> float:
        collected = COLLECTED_OF_MANY if self.begun * self.passages > MANY_COLLECTED else COLLECTED
        return COMPARED * self.most + READ * share + collected * self.begun

    def cost_in_blocks(self, ids: int, wanted: int) -> float:
        """The same in blocks with so many ids. Beginnings are checked there: GIN collects passages of all blocks."""
        if self.begun:
            return (COMPARED_IN_BLOCKS + READ_NEIGHBOUR) * self.others * ids
        return COMPARED_IN_BLOCKS * self.most * ids + READ * wanted


def newest_first(
    connection: Connection,
    look_up: Callable[[Sequence[str]], T],
    count: Callable[[T], int],
    wanted: int,
    matches: Matches,
    enough: int | None = None,
) -> T:
    """Look up matches. If very many passages match, look in the newest blocks of passages only.

    `look_up` gets the condition on the blocks. If blocks have `enough` matches, no others are looked up, and if looking
    for all that are wanted would take long, fewer blocks are looked in.
    """
    most = matches.most * matches.passages
    if most < MANY_MATCHES * wanted or not matches.likely:
        return look_up(())
    newest = connection.fetch(connection.dialect.sql("newest_indexed"), {})[0]["id"]
    share = matches.likely
    for _ in range(2):
        ids = MORE_THAN_EXPECTED * wanted / share
        if enough is not None:
            quick = ids * QUICKLY / matches.cost_in_blocks(ceil(ids), wanted)
            ids = max(MORE_THAN_EXPECTED * enough / share, min(ids, quick))
        size = BLOCK if ids <= MOST_BLOCKS * BLOCK else LARGE_BLOCK
        blocks = 1 + ceil(ids / size)  # the newest block is not full
        if blocks > 1 + MOST_BLOCKS or matches.cost_in_blocks(blocks * size, wanted) > matches.cost(share, newest):
            break
        found = look_up([any_block([newest // size - number for number in range(blocks)], size)])
        if count(found) >= (wanted if enough is None else enough):
            return found
        share = max(count(found), 1) / (blocks * size)
    return look_up(())
