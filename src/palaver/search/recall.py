"""Recall: which passages have which words of the question. No text is read here."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise, zip_longest
from math import log
from operator import neg

from palaver.search.features import Worth
from palaver.store.engines.database import SCOPE, STEM, RankedPassage, Reader, Scope
from palaver.store.engines.id_ranges import SHARED_SOURCES, WIDTH
from palaver.store.library.documents import document_scope
from palaver.store.search import found_passages
from palaver.text import tokenize
from palaver.text.query import Phrase, with_parts

MOST_CANDIDATES = 10_000
MOST_GATHERED = 12_000
MOST_TOGETHER = 2_000
MOST_RELATED = 3_000
FEW_ENOUGH = 80
"""So many passages with all of the words are all looked at closely."""
MOST_BEST = 100
"""So many are asked for where there are more."""
ENOUGH = 20
"""Where so many have the words side by side, nobody asks which of the others is best."""
LABELS = frozenset({"keywords", "tags"})
"""Fields that say what a text is about: they are searched, but where the text matches too, that is shown."""
MOST_COUNTED = 50_000
MOST_SIZED = 100_000
FEW = 1_000
"""Where the words of a question stand in no more passages, words of its theme are looked up too."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Which of the words stand in which passages, as far as that was looked up."""

    alike: dict[int, set[int]]
    """The passages by what they have, as a mask (see Worth)."""
    worth: Worth
    too_common: tuple[int, ...] = ()
    """Words that were looked for only where others are: alone they stand nearly everywhere."""
    cut_short: tuple[int, ...] = ()
    """Words of which only the newest passages were taken."""
    are_few: bool = False
    """The words themselves stand in few passages: there is time to look at them more closely."""
    found: dict[int, list[int]] = field(default_factory=dict, repr=False)
    """What each lookup found, by the mask it gave."""
    first: tuple[int, ...] = ()
    """Where very many passages have all of the words: those that the index holds for the best, best first."""

    def mask_of(self, passage_id: int) -> int:
        """What a passage has."""
        return next((mask for mask, ids in self.alike.items() if passage_id in ids), 0)

    @property
    def is_capped(self) -> bool:
        """Are there passages with some of the words that nobody looked at?"""
        return bool(self.too_common or self.cut_short) or _size(self.alike) > MOST_CANDIDATES

    def having_all(self) -> list[int] | None:
        """The passages that have all of the words, or all but those that stand nearly everywhere. None where it is not
        known: every word does."""
        known = set(range(len(self.worth.rarity))) - {*self.too_common, *self.cut_short}
        wanted = sum(1 << number for number in known)
        if not wanted:
            return None
        return [id for mask, ids in self.alike.items() if mask & wanted == wanted for id in ids]

    @property
    def size(self) -> int:
        """How many passages there are to choose from."""
        return min(_size(self.alike), MOST_CANDIDATES)

    def best_first(self, most: int = MOST_CANDIDATES) -> dict[int, int]:
        """The passages with their masks, those that cover most of the question first, and of those the newest of each
        lane in turn."""
        best = dict.fromkeys(self.first, self.worth.everything)
        for mask in sorted(self.alike, key=lambda mask: (-self.worth.of(mask), mask)):
            if len(best) >= most:
                break
            others = [id for id in self._in_order(mask) if id not in best]
            best |= dict.fromkeys(_newest(others, most - len(best)), mask)
        return best

    def _in_order(self, mask: int) -> list[int]:
        """The passages with this mask, those with the highest ids first."""
        some = self.alike[mask]
        if mask in self.found:  # which comes nearly in order, as a set does not
            return [id for id in sorted(self.found[mask], reverse=True) if id in some]
        return sorted(some, reverse=True)


def _newest(ids: list[int], most: int) -> list[int]:
    """The first of these ids, the newest of each lane in turn, titles before bodies: no source stands behind another
    because its lane has lower numbers."""
    ends = [0]
    while ends[-1] < len(ids):
        lane = ids[ends[-1]] // WIDTH
        ends.append(bisect_left(ids, -lane * WIDTH + 1, ends[-1], key=neg))
    lanes = [ids[first:last][:most] for first, last in pairwise(ends)]
    if len(lanes) < 2:
        return ids[:most]
    lanes.sort(key=lambda lane: not lane[0] // WIDTH % 2)
    return [id for some in zip_longest(*lanes) for id in some if id is not None][:most]


def _size(alike: Mapping[int, Sized]) -> int:
    return sum(map(len, alike.values()))


def gather(
    read: Reader,
    terms: Sequence[Phrase],
    slices: Iterable[Scope],
    related: Sequence[Sequence[Phrase]] = (),
    theme: Callable[[], Sequence[Phrase]] = tuple,
) -> Gathered:
    """Look the words up, the rarest first, until there are enough passages to choose from.

    The index cannot rank without reading every passage that has any of the words, and a common word stands in a
    million. So a common word brings passages only while there is room, or together with another one. Of each word those
    related to it are looked up too, and where little was found those that belong to the theme of them all.
    """
    where = list(slices)
    is_blind = any(one.is_blind for one in where)
    if is_blind:  # other passages have no part in anything the caller can see
        own = [one for one in where if "sessions" in one.sources]
        size = sum(read.size_of(one, MOST_SIZED) for one in (Scope(SHARED_SOURCES), *own))
        counts = [_visible(read, term, where, MOST_COUNTED) for term in terms]
        expected = counts[:]
    else:
        size, most, counts = read.size(), [_most_of(read, one) for one in where], _counts(read, terms)
        expected = [sum(min(count, limit) for limit in most) for count in counts]
    alike: dict[int, set[int]] = {}
    lookups: dict[int, list[int]] = {}

    def look_up(groups: Sequence[Sequence[Phrase]], cap: int) -> list[int]:
        return [id for one in where for id in read.having(groups, one, cap)]

    room, common, newest = MOST_GATHERED, list[int](), list[int]()
    for number in sorted(range(len(terms)), key=lambda number: (expected[number], number)):
        if not expected[number]:
            continue
        found = None
        if expected[number] <= room or not (alike or common):
            found = look_up([[terms[number]]], room + 1)
        if found is not None and len(found) <= room:
            room -= len(found)
            counts[number] = len(found)
            lookups[1 << number] = found
            _mark(alike, found, 1 << number)
        else:
            newest = newest or found or []
            common.append(number)
            counts[number] = max(counts[number], len(found or ()))
    cut_short = common[:1] if not alike else []
    if cut_short:
        lookups[1 << common[0]] = newest[:MOST_GATHERED]
        _mark(alike, newest[:MOST_GATHERED], 1 << common[0])
    for one, other in combinations(common[:3], 2):
        found = look_up([[terms[one]], [terms[other]]], MOST_TOGETHER)
        _mark(alike, found, 1 << one | 1 << other)
    left = common[len(cut_short) :]
    size = max(size, _size(alike), *counts, 1)
    rarity = [_rarity(size, count) for count in counts]
    others = [0.0] * (len(terms) + 1)
    are_few = _size(alike) <= FEW
    groups = dict(enumerate(related)) | ({len(terms): theme()} if are_few else {})
    for number, group in groups.items():
        if known := _uncommon(read, group, where if is_blind else ()):
            found = look_up([known], MOST_RELATED)
            others[number] = _rarity(size, len(found))
            lookups[1 << number + len(terms)] = found
            _mark(alike, found, 1 << number + len(terms))
    for number, term in enumerate(terms):
        if term.parts:  # joined by signs, as in TCP/IP: where all of them stand apart it counts as related
            found = look_up([[part] for part in term.parts], MOST_RELATED)
            others[number] = _rarity(size, len(found))
            _mark(alike, found, 1 << number + len(terms))
    worth = Worth(tuple(rarity), tuple(map(min, rarity, others)), min(others[-1], max(rarity, default=0.0)))
    return Gathered(alike, worth, tuple(left), tuple(cut_short), are_few, lookups)


def with_best(
    read: Reader, gathered: Gathered, terms: Sequence[Phrase], phrase: Phrase | None, slices: Iterable[Scope]
) -> Gathered:
    """The same, where more passages have all of the words than can be looked at: the newest need not be the best, so
    the index is asked for the best. Those that have the words side by side come first."""
    having = gathered.having_all()
    if not gathered.is_capped and having is not None and len(having) <= FEW_ENOUGH:
        return gathered
    where = list(slices)
    together = [id for one in where for id in read.having([[phrase]], one, MOST_BEST)] if phrase else []
    best: list[RankedPassage] = []
    if len(together) < ENOUGH:
        best = [hit for one in where for hit in read.promising([[term] for term in terms], one, MOST_BEST)]
        best.sort(key=lambda hit: -hit.score)
    first = tuple(dict.fromkeys((*together[:MOST_BEST], *(hit.passage_id for hit in best[:MOST_BEST]))))
    _mark(gathered.alike, first, gathered.worth.everything)
    return replace(gathered, first=first)


def _rarity(size: int, count: int) -> float:
    """What it tells that a passage has a word which so many of all have."""
    return log(1 + (size - count + 0.5) / (count + 0.5))


def _uncommon(read: Reader, terms: Sequence[Phrase], visible: Sequence[Scope]) -> list[Phrase]:
    """Those that stand somewhere, and not nearly everywhere: of what is visible, where not everything is."""
    counts = zip(terms, _counts(read, terms), strict=True)
    if not visible:
        return [term for term, count in counts if 0 < count <= MOST_RELATED]
    most = MOST_RELATED + 1
    # A word that few passages have at all is in few visible ones, and in none it finds nothing.
    return [term for term, count in counts if count and (count < most or _visible(read, term, visible, most) < most)]


def _visible(read: Reader, term: Phrase, where: Iterable[Scope], most: int) -> int:
    """How many passages in these slices have the word."""
    return sum(read.count([term], one, most) for one in where)


def _counts(read: Reader, terms: Sequence[Phrase]) -> list[int]:
    """In how many passages each stands, at the most."""
    tokens = [tuple(STEM + stem for stem in tokenize.stems(term.words)) for term in terms]
    known = read.frequencies([token for term in tokens for token in term]) if tokens else {}
    return [min(known.get(token, 0) for token in term) for term in tokens]


def _most_of(read: Reader, where: Scope) -> int:
    """How many passages a slice can have at the most, by the rarest of its scopes."""
    tokens = [SCOPE + scope for scope in where.scopes]
    return min(read.frequencies(tokens).get(token, 0) for token in tokens) if tokens else 2**62


def _mark(alike: dict[int, set[int]], found: Iterable[int], bits: int) -> None:
    """Note that these passages have this too: what some of them were alike in, they are alike in with it."""
    new = set(found)
    for mask, ids in list(alike.items()):
        both = ids & new
        if not both:
            continue
        new -= both
        ids -= both
        if not ids:
            del alike[mask]
        alike.setdefault(mask | bits, set()).update(both)
    if new:
        alike.setdefault(bits, set()).update(new)


def best_in(
    read: Reader, source: str, document_id: int, terms: Sequence[Phrase], without: tuple[str, ...] | None = None
) -> int | None:
    """The passage of a document that has most of the words; its labels only where no text has any. `without`: the
    scopes that the caller may not read."""
    scopes = (document_scope(document_id),)
    where = Scope((source,), titles=False, scopes=scopes, without=without or (), is_blind=without is not None)
    found = [hit.passage_id for hit in read.recall([with_parts(terms)], where, 2)]  # one may be its labels
    places = found_passages.by_ids(read, found) if len(found) > 1 else {}
    texts = [id for id in found if id in places and places[id].field not in LABELS]
    return next(iter(texts or found), None)
