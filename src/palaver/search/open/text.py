"""Open a text or a set of fields: the piece around the match, or all of it."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from palaver.errors import Refused
from palaver.model.search import FoundPassage, GetResponse, Loc
from palaver.search.open.conversation import TITLES
from palaver.search.open.excerpt import (
    BETWEEN,
    Excerpt,
    Opening,
    cut,
    join_chunks,
    locate_chunks,
    number_in,
    parse_cursor,
    place_in,
)
from palaver.search.question import any_of
from palaver.search.snippet import match_place
from palaver.search.sources import CUT_FIELDS, SOURCES
from palaver.store.library import items
from palaver.store.search import found_passages
from palaver.text import passages
from palaver.text.passages import Piece


def open_around(opening: Opening, named: FoundPassage | None) -> GetResponse:
    """The piece of a text that a `loc` or a search names, with its neighbours."""
    at = opening.at
    loc = opening.plan.loc or {}
    field = _field_at(opening, loc, named)
    terms, offset = opening.plan.terms or opening.plan.recent, 0
    if named and named.field == field:
        offset = named.marks.get("at", 0)
        if opening.plan.chunk and terms and (place := match_place(named.text, any_of(terms))):
            offset += place[0]  # the passage is cut into chunks of another size
    if not loc and named is not None and named.position and field == named.field and "at" not in named.marks:
        loc = {"chunk_index": named.position - 1} if field == "content" else {}
    if field in _fields(opening):
        excerpt = _excerpt(opening, field, loc, offset)
    else:  # the title or the labels, above the beginning of the text
        label = "" if field in TITLES else f"{field}: "
        heading = at.title or "" if field in TITLES else label + ", ".join(at.facts.get(field) or [])
        excerpt = _excerpt(opening, _first_field(opening), {}, 0)
        excerpt.heading = f"{heading}{BETWEEN}" if excerpt.count else heading
        if loc.get("approx_offset") is not None:
            excerpt.place = place_in(heading, len(label) + number_in(loc, "approx_offset"))
    content, is_truncated, first, last = cut(excerpt, opening.plan)
    chunks = None
    if opening.plan.mode != "snippet" and excerpt.count and field in CUT_FIELDS:
        chunks = [{"chunk_index": n} for n in range(first, last + 1)]
    return opening.response(named or at, content, truncated=is_truncated, attachments=chunks)


def open_full(opening: Opening) -> GetResponse:
    """The whole text, in pages."""
    at, plan = opening.at, opening.plan
    (offset,) = parse_cursor(plan.cursor, "t", 1) or (0,)
    bodies = items.bodies(opening.read, at.document_id)
    if _fields(opening) != CUT_FIELDS:
        parts = [at.title or ""]
        parts += [f"{field}:\n{bodies[field]}" for field in _fields(opening) if bodies.get(field)]
        parts += [f"{key}: {', '.join(at.facts[key])}" for key in ("tags", "keywords") if at.facts.get(key)]
        text = BETWEEN.join(parts)
    else:
        text = bodies.get("content") or _joined_chunks(opening) or bodies.get("transcript") or ""
    if offset > len(text):
        raise Refused("retrieval.cursor: this item has become shorter. Begin again without a cursor.")
    content = text[offset : offset + plan.page_size]
    is_truncated = offset + len(content) < len(text)
    attachments = None
    if at.source == "media" and not offset and not plan.has_budget and (segments := bodies.get("segments")):
        rows = [{"start": start, "end": end, "text": said} for start, end, said in orjson.loads(segments)]
        attachments = [{"type": "transcript", "segments": rows}]
    cursor = f"t:{offset + len(content)}" if is_truncated and content else None
    return opening.response(at, content, truncated=is_truncated, next_cursor=cursor, attachments=attachments)


def _fields(opening: Opening) -> tuple[str, ...]:
    return SOURCES[opening.at.source].fields


def _field_at(opening: Opening, loc: Loc, named: FoundPassage | None) -> str:
    """The field that a `loc` names, or that was found."""
    wanted = loc.get("field")
    if wanted is None:
        if any(loc.get(key) is not None for key in ("chunk_index", "chunk_uuid", "approx_offset")):
            return _fields(opening)[0]
        return named.field if named else _first_field(opening)
    known = {*_fields(opening), *TITLES, "keywords", "tags"}
    if not isinstance(wanted, str) or wanted not in known:
        raise Refused(f"retrieval.loc.field: must be one of {', '.join(sorted(known))}.")
    return wanted


def _first_field(opening: Opening) -> str:
    """The first field that is not empty."""
    fields = _fields(opening)
    return next((field for field in fields if items.body(opening.read, opening.at.document_id, field)), fields[0])


def _excerpt(opening: Opening, field: str, loc: Loc, offset: int) -> Excerpt:
    """The pieces of a field, or the chunks that a media item came with, and which of them is the anchor."""
    read, at, plan = opening.read, opening.at, opening.plan
    text = items.body(read, at.document_id, field) or (_joined_chunks(opening) if field == "content" else "")
    given = _given_chunks(opening) if field == "content" else None
    names_chunk = any(loc.get(key) is not None for key in ("chunk_index", "chunk_uuid"))
    if given is not None and (plan.prefers_given or (names_chunk and loc.get("approx_offset") is None)):
        # If the chunks are pieces of the text, the text between them is known too.
        anchor, located = _anchor_chunk(opening, given, text, loc), locate_chunks(given, text)
        excerpt = Excerpt(anchor, texts=given, whole=text if located else "", pieces=located or ())
        if loc.get("chunk_offset") is not None:
            excerpt.place = place_in(excerpt.alone(), number_in(loc, "chunk_offset"))
        if plan.prefers_given or not excerpt.pieces:
            return excerpt
        loc = {"approx_offset": excerpt.pieces[excerpt.anchor].start + (excerpt.place or 0)}
    pieces = _pieces(opening, field, text)
    excerpt = Excerpt(anchor=_anchor(opening, pieces, loc, offset), texts=(), whole=text, pieces=pieces)
    if pieces and loc.get("approx_offset") is not None:
        place = number_in(loc, "approx_offset") - pieces[excerpt.anchor].start
        excerpt.place = place_in(excerpt.alone(), place)
    return excerpt


def _given_chunks(opening: Opening) -> list[str] | None:
    if opening.at.source != "media":
        return None
    chunks = items.body(opening.read, opening.at.document_id, "chunks")
    return orjson.loads(chunks) if chunks else None


def _joined_chunks(opening: Opening) -> str:
    """The text of a media item that came as chunks only."""
    return join_chunks(_given_chunks(opening) or [], BETWEEN)


def _pieces(opening: Opening, field: str, text: str) -> list[Piece]:
    if opening.plan.chunk:
        return passages.pieces(text, *opening.plan.chunk)
    found = []
    for row in found_passages.passages(opening.read, opening.at.document_id, 1):
        if row.field != field:
            continue
        start = row.data.get("at")
        if start is None:
            return passages.pieces(text)
        found.append(Piece(start, start + len(row.text)))
    return found or passages.pieces(text)


def _anchor(opening: Opening, pieces: list[Piece], loc: Loc, offset: int) -> int:
    """The number of the piece that a `loc` names, or that holds the offset."""
    has_own_chunks = opening.plan.chunk is not None
    if not pieces:
        if loc.get("chunk_index"):
            raise Refused("retrieval.loc.chunk_index: this item has no chunks.")
        return 0
    if loc.get("approx_offset") is not None and (has_own_chunks or loc.get("chunk_index") is None):
        wanted = number_in(loc, "approx_offset")
        if not 0 <= wanted <= pieces[-1].end:
            raise Refused(f"retrieval.loc.approx_offset: must be between 0 and {pieces[-1].end}.")
        return passages.holding(pieces, wanted)
    if loc.get("chunk_uuid") is not None and not has_own_chunks:
        return _chunk_with_uuid(opening, loc, len(pieces))
    if loc.get("chunk_index") is not None:
        return _chunk_with_index(loc, len(pieces))
    return passages.holding(pieces, offset)


def _anchor_chunk(opening: Opening, chunks: Sequence[str], text: str, loc: Loc) -> int:
    """The number of the given chunk that a `loc` names; 0 if it names none."""
    if loc.get("chunk_index") is not None:
        return _chunk_with_index(loc, len(chunks))
    if loc.get("chunk_uuid") is not None:
        return _chunk_with_uuid(opening, loc, len(chunks))
    if loc.get("approx_offset") is None:
        return 0
    wanted = number_in(loc, "approx_offset")
    near = text[wanted : wanted + 30]
    holding = next((n for n, chunk in enumerate(chunks) if near and near in chunk), None)
    if holding is not None:
        return holding
    used = 0
    for n, chunk in enumerate(chunks):
        used += len(chunk)
        if wanted < used:
            return n
    raise Refused(f"retrieval.loc.approx_offset: must be between 0 and {used}.")


def _chunk_with_index(loc: Loc, count: int) -> int:
    wanted = number_in(loc, "chunk_index")
    if not 0 <= wanted < count:
        raise Refused(f"retrieval.loc.chunk_index: must be between 0 and {count - 1}.")
    return wanted


def _chunk_with_uuid(opening: Opening, loc: Loc, count: int) -> int:
    place = found_passages.passage_by_id(opening.read, opening.at.document_id, str(loc["chunk_uuid"]))
    if place is None or not 0 < place.position <= count:
        raise Refused("retrieval.loc.chunk_uuid: there is no such chunk in this item.")
    return place.position - 1
