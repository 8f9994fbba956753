"""Opening a thing: a snippet of it, the passage that matters, that passage with its neighbours, or all of it.

Whatever the source, there is an anchor (the passage that was found), there are passages around it, and there is a
budget. What comes back never costs more than the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BeforeValidator, Field

from palaver.errors import NotFound, Refused
from palaver.model.messages import HIDDEN
from palaver.model.people import Caller
from palaver.model.requests import Ask, Query, clamp, storable
from palaver.model.search import GetResponse, Loc, Standing
from palaver.model.times import instant, iso
from palaver.search import budget as siblings
from palaver.search import recall, results
from palaver.search.budget import characters, cut_around, spread
from palaver.search.question import terms as terms_of
from palaver.search.snippet import match_place, passage_snippet
from palaver.search.sources import SOURCES
from palaver.search.sources.shapes import CUT_FIELDS
from palaver.search.sources.shelving import CHARACTER_TEXTS, GREETINGS, PROMPT_TEXTS
from palaver.store.engines.database import Reader
from palaver.store.library import items
from palaver.store.library.documents import HUMAN_ONLY
from palaver.store.search import found_passages
from palaver.store.search.found_passages import PassageRow
from palaver.text import passages
from palaver.text.passages import OVERLAP, SIZE, Piece
from palaver.text.query import Phrase

Mode = Literal["snippet", "chunk", "chunk_with_siblings", "full", "auto"]

MAX_TOKENS = 5_000
PER_TOKEN = 4.0
WINDOW = 2
FARTHEST = 1_000
"""How many passages on each side are looked at when only the budget limits them."""
FARTHEST_PLACE = 2**40
FULL_PAGE = 1_000_000
BETWEEN = "\n\n"
TITLES = ("title", "name")
FIELDS_OF = {"characters": (*CHARACTER_TEXTS, GREETINGS), "prompts": PROMPT_TEXTS}
MATCH = 60
"""How much from a place on belongs to what was found there, where nothing tells."""


def number(low: float, high: float) -> BeforeValidator:
    def clamped(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise ValueError("must be a number")
        return float(min(max(value, low), high))

    return BeforeValidator(clamped)


def _storable_loc(loc: dict[str, Any]) -> dict[str, Any]:
    for value in loc.values():
        if isinstance(value, str):
            storable(value)
    return loc


class RetrievalOptions(Ask):
    mode: Mode | None = None
    """snippet, chunk, chunk_with_siblings, full, or auto: chunk_with_siblings where there is a budget, else snippet.
    full gives at most 1,000,000 characters; next_cursor gets the rest."""
    snippet_length: Annotated[int, clamp(50, 1000)] | None = None
    """Characters of a snippet, 50 to 1000."""
    max_tokens: Annotated[int, clamp(0, 200_000)] | None = None
    """The budget: the content is never longer."""
    chars_per_token: Annotated[float, number(1, 20)] | None = None
    """How many characters count as a token, 1 to 20."""
    chunk_size_tokens: Annotated[int, clamp(1, 200_000)] | None = None
    """Cut the text into chunks of this size. With prefer_prechunked: true, only where no chunks are stored."""
    chunk_overlap_tokens: Annotated[int, clamp(0, 100_000)] | None = None
    """How much such chunks overlap."""
    sibling_window: Annotated[int, clamp(0, 10)] | None = None
    """How many chunks on each side to consider, 0 to 10; 0 is the anchor alone."""
    prefer_prechunked: bool | None = None
    """Use the chunks a media item came with, if it has some. Default: true."""
    loc: Annotated[dict[str, Any], Field(max_length=20), AfterValidator(_storable_loc)] | None = None
    """Where to open it: the loc of a search result."""
    query: Query | None = None
    """Open it where this is said."""
    cursor: Annotated[str, Field(max_length=200)] | None = None
    """next_cursor of the page before."""


@dataclass(frozen=True, slots=True)
class How:
    """How much to open, with everything decided."""

    mode: Literal["snippet", "chunk", "chunk_with_siblings", "full"]
    snippet_length: int
    budget: int
    has_budget: bool
    reach: int
    chunk: tuple[int, int] | None
    """Size and overlap of chunks to cut; None for the stored ones."""
    prefers_given: bool
    """Whether the chunks that a media item came with are used, if it has some."""
    loc: Loc | None
    terms: tuple[Phrase, ...]
    recent: tuple[Phrase, ...]
    cursor: str | None


def how_of(options: RetrievalOptions | None, caller: Caller, default: Mode = "snippet") -> How:
    """What was asked for; where nothing was said what the client prefers; else what is usual."""
    options = options or RetrievalOptions()
    config = caller.config
    per_token = options.chars_per_token or config.get("chars_per_token") or PER_TOKEN
    asked = options.max_tokens if options.max_tokens is not None else config.get("max_tokens")
    window = options.sibling_window if options.sibling_window is not None else config.get("sibling_window")
    mode = options.mode or default
    if mode == "auto":
        mode = "chunk_with_siblings" if asked is not None else "snippet"
    size, overlap = options.chunk_size_tokens, options.chunk_overlap_tokens
    chunk = None
    if size is not None or options.prefer_prechunked is False:
        length = characters(size, per_token) if size is not None else SIZE
        chunk = max(1, length), characters(overlap, per_token) if overlap is not None else min(OVERLAP, length // 8)
    recall = caller.recall
    return How(
        mode=mode,
        snippet_length=options.snippet_length or config.get("snippet_length") or results.SNIPPET,
        budget=characters(MAX_TOKENS if asked is None else asked, per_token),
        has_budget=asked is not None,
        reach=window if window is not None else FARTHEST if asked is not None else WINDOW,
        chunk=chunk,
        prefers_given=chunk is None or options.prefer_prechunked is True,
        loc=options.loc,
        terms=terms_of(options.query) if options.query else (),
        recent=terms_of(recall.queries[-1]) if recall and recall.queries else (),
        cursor=options.cursor,
    )


@dataclass
class Reading:
    """What is read: passages in order, and which of them is the anchor."""

    anchor: int
    texts: Sequence[str]
    labels: Sequence[str] = ()
    whole: str = ""
    pieces: Sequence[Piece] = ()
    heading: str = ""
    place: int | None = None
    """Where in the anchor, or in the heading, it was found."""

    @property
    def count(self) -> int:
        return len(self.pieces) or len(self.texts)

    @cached_property
    def _ends(self) -> list[int]:
        """What the texts cost from the first one on, each with its label and what stands between two."""
        costs = [len(text) + len(BETWEEN) for text in self.texts]
        if self.labels:
            costs = [cost + len(label) + 2 for cost, label in zip(costs, self.labels, strict=True)]
        return list(accumulate(costs, initial=0))

    def alone(self) -> str:
        if not self.count:
            return ""
        return self.between(self.anchor, self.anchor) if self.pieces else self.texts[self.anchor]

    def between(self, first: int, last: int) -> str:
        if self.pieces:
            return self.whole[self.pieces[first].start : self.pieces[last].end]
        if self.labels:
            return BETWEEN.join(f"{self.labels[n]}: {self.texts[n]}" for n in range(first, last + 1))
        return siblings.joined(list(self.texts[first : last + 1]), BETWEEN)

    def cost(self, first: int, last: int) -> int:
        if self.pieces:
            return self.pieces[last].end - self.pieces[first].start
        return self._ends[last + 1] - self._ends[first] - len(BETWEEN)


def open_item(read: Reader, caller: Caller, source: str, id: str, how: How) -> GetResponse:
    """The thing of this id, as much of it as is wanted."""
    opened = found_passages.resolve(read, source, id)
    at = found_passages.document(read, opened.document_id) if opened else None
    if opened is None or at is None or not results.may_open(caller, at):
        raise NotFound("item", f"{source}/{id}", "Search to see what is there.")
    _check_owner(at, how.loc)
    if opened.passage_id is None and how.loc is None and how.mode != "full":
        opened = found_passages.ResolvedId(opened.document_id, _anchor_by_words(read, caller, at, how))
    named = found_passages.by_id(read, opened.passage_id) if opened.passage_id else None
    opener = _Said(read, caller, at, how) if SOURCES[source].is_said else _Text(read, caller, at, how)
    return opener.full() if how.mode == "full" else opener.around(named)


def _anchor_by_words(read: Reader, caller: Caller, at: Standing, how: How) -> int | None:
    """Where this is said in it; else where what was searched for last is."""
    without = (HUMAN_ONLY,) if caller.is_agent else None
    for terms in (how.terms, how.recent):
        found = recall.best_in(read, at.source, at.document_id, terms, without) if terms else None
        if found:
            return found
    return None


def _check_owner(at: Standing, loc: Loc | None) -> None:
    own = {"media_id", "note_id", "conversation_id", "thread_id", "character_id", "prompt_id"}
    for key in own & set(loc or ()):
        if str((loc or {})[key]) != at.document:
            raise Refused(f"retrieval.loc.{key}: this place is in another item. Use the loc that came with this one.")


def _whole_number(loc: Loc, key: str) -> int:
    """The number at this key; one that is too large for any place is no better than another such."""
    value = loc[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or (isinstance(value, float) and value % 1):
        raise Refused(f"retrieval.loc.{key}: must be a whole number.")
    return int(min(max(value, -FARTHEST_PLACE), FARTHEST_PLACE))


class _Opener:
    """What opening has in common for all shapes."""

    def __init__(self, read: Reader, caller: Caller, at: Standing, how: How) -> None:
        self.read, self.caller, self.at, self.how = read, caller, at, how
        self.source = SOURCES[at.source]

    def answer(self, at: Standing, content: str, *, truncated: bool, **more: Any) -> GetResponse:
        id = self.source.id_of(at.document, at.native_id, at.position)
        meta = self.source.result(
            at,
            score=1.0,
            snippet=content if self.how.mode == "snippet" else None,
            loc=self.how.loc or self.source.loc(at, 0),
            link=results.link_to(self.read.settings.base_url, at.source, id),
        )
        return GetResponse(meta, content, truncated=truncated, **more)

    def cut(self, reading: Reading) -> tuple[str, bool, int, int]:
        """The content, whether it was cut, and the first and last passage in it."""
        how, alone = self.how, reading.heading + reading.alone()
        terms = self._terms(alone, reading)
        place = match_place(alone, results.query_of(terms)) if terms else None
        if place is None and reading.place is not None:
            place = reading.place, min(reading.place + MATCH, len(alone))
        if how.mode == "snippet":
            length = min(how.snippet_length, how.budget) if how.has_budget else how.snippet_length
            if terms:
                snippet = passage_snippet(alone, results.query_of(terms), length=length, stemmed=True)
            elif place:
                snippet = _snippet_at(alone, place[0], length)
            else:
                text = alone if reading.heading else self._with_surroundings(reading)
                snippet = " ".join(text[: 4 * length].split())[:length].strip()
            return snippet, False, reading.anchor, reading.anchor
        if reading.heading or how.mode == "chunk" or not reading.count:
            content = cut_around(alone, how.budget, place)
            return content, len(content) < len(alone), reading.anchor, reading.anchor
        first, last = spread(reading.anchor, reading.count, how.reach, how.budget, reading.cost)
        text = alone if first == last else reading.between(first, last)
        if first == last and reading.labels and len(labelled := reading.between(first, last)) <= how.budget:
            text = labelled
        content = cut_around(text, how.budget, place if text == alone else None)
        return content, len(content) < len(text), first, last

    def _terms(self, text: str, reading: Reading) -> tuple[Phrase, ...]:
        """The words that say which part matters: those asked for; where no place was named, those searched for last."""
        for terms in (self.how.terms, self.how.recent if reading.place is None else ()):
            if terms and match_place(text, results.query_of(terms)):
                return terms
        return ()

    def _with_surroundings(self, reading: Reading) -> str:
        if reading.pieces and not reading.texts:
            return reading.whole[reading.pieces[reading.anchor].start :][: 8 * self.how.snippet_length]
        if reading.count and not reading.labels and self.how.loc is None:
            last = min(reading.anchor + self.how.snippet_length, reading.count - 1)
            return reading.between(reading.anchor, last)  # a snippet of chunks that are shorter than it
        return reading.alone()


class _Said(_Opener):
    """Conversations: a passage is a message."""

    def around(self, named: Standing | None) -> GetResponse:
        loc = self.how.loc or {}
        anchor = named
        is_title = loc.get("field") in TITLES or (named is not None and named.position == 0)
        if loc and not is_title:
            anchor = self._by_loc(loc)
        position = anchor.position if anchor and anchor.position else self._first()
        reach = min(self.how.reach, FARTHEST) if self.how.mode == "chunk_with_siblings" else 0
        rows = found_passages.passages(self.read, self.at.document_id, max(1, position - reach), position + reach)
        number = next((n for n, row in enumerate(rows) if row.position == position), 0)
        reading = Reading(
            anchor=number,
            texts=[self._text(row) for row in rows],
            labels=[self._label(row) for row in rows],
            heading=f"{self.at.title}{BETWEEN}" if is_title and self.at.title else "",
        )
        if loc.get("approx_offset") is not None:
            reading.place = _inside(_whole_number(loc, "approx_offset"), reading.heading + reading.alone())
        content, truncated, first, last = self.cut(reading)
        shown = [self._message(row, with_text=False) for row in rows[first : last + 1]]
        at = anchor if anchor and anchor.position else self.at
        return self.answer(at, content, truncated=truncated, attachments=shown or None)

    def _by_loc(self, loc: Loc) -> Standing:
        for key in ("message_id", "native_id"):
            if loc.get(key) is not None:
                row = found_passages.passage_by_id(self.read, self.at.document_id, str(loc[key]))
                if row is None or not row.position:
                    raise NotFound("message", str(loc[key]), "It is not in this conversation.")
                return self._standing(row.id)
        for key, first in (("seq", 0), ("message_index", 1), ("index", 1)):
            if loc.get(key) is not None:
                wanted = _whole_number(loc, key) + first
                rows = found_passages.passages(self.read, self.at.document_id, wanted, wanted) if wanted > 0 else []
                if not rows:
                    raise Refused(f"retrieval.loc.{key}: there is no such message in this conversation.")
                return self._standing(rows[0].id)
        raise Refused("retrieval.loc: name a message_id or a message_index.")

    def _standing(self, passage_id: int) -> Standing:
        found = found_passages.by_id(self.read, passage_id)
        assert found is not None
        return found

    def _first(self) -> int:
        return found_passages.passage_bounds(self.read, self.at.document_id).first

    def _text(self, row: PassageRow) -> str:
        return HIDDEN if self._is_hidden(row) else row.text

    def _is_hidden(self, row: PassageRow) -> bool:
        return self.at.source == "bus" and results.hides(self.caller, row.data)

    def _label(self, row: PassageRow) -> str:
        name = row.data.get("author_name") if self.at.source == "bus" else None
        author = None if self.at.source == "sessions" else row.author
        return str(name or author or row.role or "unknown")

    def _message(self, row: PassageRow, *, with_text: bool) -> dict[str, Any]:
        shown = {
            "message_id": row.native_id,
            "message_index": row.position - 1,
            "sender": self._label(row),
            "created_at": iso(instant(row.created_at)) if row.created_at is not None else None,
        }
        return shown | ({"content": self._text(row)} if with_text else {})

    def page(self, number: int, size: int) -> GetResponse:
        """A page of messages, in order, with their texts."""
        bounds = found_passages.passage_bounds(self.read, self.at.document_id).count
        rows = found_passages.passage_page(self.read, self.at.document_id, size, (number - 1) * size)
        content = BETWEEN.join(f"{self._label(row)}: {self._text(row)}" for row in rows)
        has_more = number * size < bounds
        paging = {"page": number, "page_size": size, "total_messages": bounds, "has_more": has_more}
        if len(content) > self._room:
            return self._cut_page(rows, content[: self._room], paging)
        messages = [self._message(row, with_text=True) for row in rows]
        return self.answer(self.at, content, truncated=False, attachments=messages, paging=paging)

    def _cut_page(self, rows: Sequence[PassageRow], content: str, paging: dict[str, Any]) -> GetResponse:
        """As much of a page as there is room for; what follows is read with the cursor."""
        shown: list[dict[str, Any]] = []
        begun, cursor = 0, None
        for row in rows:
            if begun >= len(content):
                break
            shown.append(self._message(row, with_text=False))
            cursor = f"m:{row.position}:{len(content) - begun}"
            begun += len(f"{self._label(row)}: {self._text(row)}{BETWEEN}")
        more: dict[str, Any] = {"next_cursor": cursor, "attachments": shown or None, "paging": paging}
        return self.answer(self.at, content, truncated=True, **more)

    @property
    def _room(self) -> int:
        return min(FULL_PAGE, self.how.budget) if self.how.has_budget else FULL_PAGE

    def full(self) -> GetResponse:
        room = self._room
        position, offset = _cursor(self.how.cursor, "m", 2) or (0, 0)
        last = found_passages.passage_bounds(self.read, self.at.document_id).last
        parts: list[str] = []
        shown: list[dict[str, Any]] = []
        used, after = 0, max(position - 1, 0)
        while rows := found_passages.passages_after(self.read, self.at.document_id, after, 200):
            for row in rows:
                # What stands between two messages goes with the first one: pages put together are the whole.
                text = f"{self._label(row)}: {self._text(row)}{BETWEEN if row.position < last else ''}"
                begun = offset if row.position == position else 0
                text = text[begun:]
                if used + len(text) > room:
                    taken = "" if parts else text[:room]
                    cursor = f"m:{row.position}:{begun + len(taken)}" if parts or taken else None
                    shown += [self._message(row, with_text=False)] if taken else []
                    content = "".join([*parts, taken])
                    return self.answer(self.at, content, truncated=True, next_cursor=cursor, attachments=shown or None)
                parts.append(text)
                shown.append(self._message(row, with_text=False))
                used += len(text)
            after = rows[-1].position
        return self.answer(self.at, "".join(parts), truncated=False, attachments=shown or None)


class _Text(_Opener):
    """Running text and fields: a passage is a piece of a text."""

    def around(self, named: Standing | None) -> GetResponse:
        loc, at = self.how.loc or {}, named or self.at
        field = self._field(loc, named)
        offset = named.marks.get("at", 0) if named and named.field == field else 0
        if not loc and named is not None and named.position and field == named.field and "at" not in named.marks:
            loc = {"chunk_index": named.position - 1} if field == "content" else {}
        reading = self._reading(field, loc, offset)
        if field in TITLES or field not in self._fields():
            title = self.at.title or ""
            before = "" if field in TITLES else f"{field}: "
            shown = title if field in TITLES else before + ", ".join(self.at.facts.get(field) or [])
            reading = self._reading(self._first_field(), {}, 0)
            reading.heading = f"{shown}{BETWEEN}" if reading.count else shown
            if loc.get("approx_offset") is not None:
                reading.place = _inside(len(before) + _whole_number(loc, "approx_offset"), shown)
        content, truncated, first, last = self.cut(reading)
        return self.answer(at, content, truncated=truncated, attachments=self._chunks(reading, field, first, last))

    def _fields(self) -> tuple[str, ...]:
        return FIELDS_OF.get(self.at.source, CUT_FIELDS)

    def _field(self, loc: Loc, named: Standing | None) -> str:
        wanted = loc.get("field")
        if wanted is None:
            if loc.get("chunk_index") is not None or loc.get("chunk_uuid") is not None:
                return self._fields()[0]
            if loc.get("approx_offset") is not None:
                return self._fields()[0]
            return named.field if named else self._first_field()
        known = {*self._fields(), *TITLES, "keywords", "tags"}
        if not isinstance(wanted, str) or wanted not in known:
            raise Refused(f"retrieval.loc.field: must be one of {', '.join(sorted(known))}.")
        return wanted

    def _first_field(self) -> str:
        """The first field that says something."""
        for field in self._fields():
            if items.body(self.read, self.at.document_id, field):
                return field
        return self._fields()[0]

    def _reading(self, field: str, loc: Loc, offset: int) -> Reading:
        text = items.body(self.read, self.at.document_id, field) or (self._joined() if field == "content" else "")
        given = self._given_chunks() if field == "content" else None
        if given is not None and (self.how.prefers_given or _names_chunk(loc)):
            found = self._given(given, text, loc)
            if self.how.prefers_given or not found.pieces:
                return found
            loc = {"approx_offset": found.pieces[found.anchor].start + (found.place or 0)}
        pieces = self._pieces(field, text)
        found = Reading(anchor=self._number(pieces, loc, offset), texts=(), whole=text, pieces=pieces)
        if pieces and loc.get("approx_offset") is not None:
            found.place = _inside(_whole_number(loc, "approx_offset") - pieces[found.anchor].start, found.alone())
        return found

    def _given(self, chunks: list[str], text: str, loc: Loc) -> Reading:
        """The chunks as they came. Where they are pieces of the text, what stands between two is known too."""
        anchor, pieces = self._number_of_given(chunks, text, loc), siblings.located(chunks, text)
        found = Reading(anchor, texts=chunks, whole=text, pieces=pieces) if pieces else Reading(anchor, texts=chunks)
        if loc.get("chunk_offset") is not None:
            found.place = _inside(_whole_number(loc, "chunk_offset"), found.alone())
        return found

    def _given_chunks(self) -> list[str] | None:
        if self.at.source != "media":
            return None
        chunks = items.body(self.read, self.at.document_id, "chunks")
        return orjson.loads(chunks) if chunks else None

    def _joined(self) -> str:
        """The text of a medium that came in chunks alone."""
        return siblings.joined(self._given_chunks() or [], BETWEEN)

    def _pieces(self, field: str, text: str) -> list[Piece]:
        if self.how.chunk:
            return passages.pieces(text, *self.how.chunk)
        stored = [row for row in found_passages.passages(self.read, self.at.document_id, 1) if row.field == field]
        found = []
        for row in stored:
            start = row.data.get("at")
            if start is None:
                return passages.pieces(text)
            found.append(Piece(start, start + len(row.text)))
        return found or passages.pieces(text)

    def _number(self, pieces: list[Piece], loc: Loc, offset: int) -> int:
        if not pieces:
            if loc.get("chunk_index"):
                raise Refused("retrieval.loc.chunk_index: this item has no chunks.")
            return 0
        if loc.get("approx_offset") is not None and (self.how.chunk or loc.get("chunk_index") is None):
            wanted = _whole_number(loc, "approx_offset")
            if not 0 <= wanted <= pieces[-1].end:
                raise Refused(f"retrieval.loc.approx_offset: must be between 0 and {pieces[-1].end}.")
            return passages.holding(pieces, wanted)
        if loc.get("chunk_uuid") is not None and self.how.chunk is None:
            return self._by_uuid(str(loc["chunk_uuid"]), len(pieces))
        if loc.get("chunk_index") is not None:
            return self._by_index(loc, len(pieces))
        return passages.holding(pieces, offset)

    def _by_index(self, loc: Loc, count: int) -> int:
        wanted = _whole_number(loc, "chunk_index")
        if not 0 <= wanted < count:
            raise Refused(f"retrieval.loc.chunk_index: must be between 0 and {count - 1}.")
        return wanted

    def _by_uuid(self, uuid: str, count: int) -> int:
        row = found_passages.passage_by_id(self.read, self.at.document_id, uuid)
        if row is None or not 0 < row.position <= count:
            raise Refused("retrieval.loc.chunk_uuid: there is no such chunk in this item.")
        return row.position - 1

    def _number_of_given(self, chunks: list[str], text: str, loc: Loc) -> int:
        if loc.get("chunk_index") is not None:
            return self._by_index(loc, len(chunks))
        if loc.get("chunk_uuid") is not None:
            return self._by_uuid(str(loc["chunk_uuid"]), len(chunks))
        if loc.get("approx_offset") is None:
            return 0
        wanted = _whole_number(loc, "approx_offset")
        near = text[wanted : wanted + 30]
        held = next((n for n, chunk in enumerate(chunks) if near and near in chunk), None)
        if held is not None:
            return held
        used = 0
        for n, chunk in enumerate(chunks):
            used += len(chunk)
            if wanted < used:
                return n
        raise Refused(f"retrieval.loc.approx_offset: must be between 0 and {used}.")

    def _chunks(self, reading: Reading, field: str, first: int, last: int) -> list[dict[str, Any]] | None:
        if self.how.mode == "snippet" or not reading.count or field not in CUT_FIELDS:
            return None
        return [{"chunk_index": n} for n in range(first, last + 1)]

    def full(self) -> GetResponse:
        room = min(FULL_PAGE, self.how.budget) if self.how.has_budget else FULL_PAGE
        (offset,) = _cursor(self.how.cursor, "t", 1) or (0,)
        text = self._whole()
        if offset > len(text):
            raise Refused("retrieval.cursor: this item has become shorter. Begin again without a cursor.")
        content = text[offset : offset + room]
        is_more = offset + len(content) < len(text)
        attachments = None
        if self.at.source == "media" and not offset and not self.how.has_budget:
            segments = items.body(self.read, self.at.document_id, "segments")
            if segments:
                rows = [{"start": s[0], "end": s[1], "text": s[2]} for s in orjson.loads(segments)]
                attachments = [{"type": "transcript", "segments": rows}]
        cursor = f"t:{offset + len(content)}" if is_more and content else None
        return self.answer(self.at, content, truncated=is_more, next_cursor=cursor, attachments=attachments)

    def _whole(self) -> str:
        bodies = items.bodies(self.read, self.at.document_id)
        if self.at.source not in FIELDS_OF:
            return bodies.get("content") or self._joined() or bodies.get("transcript") or ""
        parts = [f"{self.source_title()}"]
        parts += [f"{field}:\n{bodies[field]}" for field in self._fields() if bodies.get(field)]
        parts += [f"{key}: {', '.join(self.at.facts[key])}" for key in ("tags", "keywords") if self.at.facts.get(key)]
        return BETWEEN.join(parts)

    def source_title(self) -> str:
        return self.at.title or ""


def _names_chunk(loc: Loc) -> bool:
    is_named = loc.get("chunk_index") is not None or loc.get("chunk_uuid") is not None
    return is_named and loc.get("approx_offset") is None


def _inside(place: int, text: str) -> int | None:
    """The place, if it is one in this text."""
    return place if 0 <= place < len(text) else None


def _snippet_at(text: str, place: int, length: int) -> str:
    """So many characters around a place, on one line."""
    begin = max(0, place - length // 3)
    if begin and (blank := text.find(" ", begin, place)) >= 0:
        begin = blank + 1
    return " ".join(text[begin : begin + 4 * length].split())[:length].strip()


def _cursor(cursor: str | None, kind: str, count: int) -> tuple[int, ...] | None:
    if cursor is None:
        return None
    name, *numbers = cursor.split(":")
    if name != kind or len(numbers) != count or not all(n.isascii() and n.isdigit() and len(n) < 16 for n in numbers):
        raise Refused("retrieval.cursor: this is no cursor. Use the next_cursor of an answer, as it is.")
    return tuple(map(int, numbers))


def page_of(read: Reader, caller: Caller, source: str, id: str, how: How, number: int, size: int) -> GetResponse:
    """A page of a conversation's messages, as far as the budget goes."""
    opened = found_passages.resolve(read, source, id)
    at = found_passages.document(read, opened.document_id) if opened else None
    if opened is None or at is None or not results.may_open(caller, at):
        raise NotFound("item", f"{source}/{id}", "Search to see what is there.")
    return _Said(read, caller, at, how).page(number, size)
