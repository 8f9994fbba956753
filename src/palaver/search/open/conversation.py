"""Open a conversation: the messages around one of them, a page of messages, or all of them."""

from __future__ import annotations

from typing import Any

from palaver.errors import NotFound, Refused
from palaver.model import visibility
from palaver.model.search import FoundPassage, GetResponse, Loc
from palaver.model.times import instant, iso
from palaver.search.open.excerpt import BETWEEN, Excerpt, Opening, cut, number_in, parse_cursor, place_in
from palaver.store.search import found_passages
from palaver.store.search.found_passages import PassageRow

FARTHEST = 1_000
"""Messages on each side that are read when only the budget limits them."""
TITLES = ("title", "name")


def open_around(opening: Opening, named: FoundPassage | None) -> GetResponse:
    """The message that a `loc` or an id names, with its neighbours."""
    read, at, plan = opening.read, opening.at, opening.plan
    loc = plan.loc or {}
    is_title = loc.get("field") in TITLES or (named is not None and named.position == 0)
    anchor = _message_at(opening, loc) if loc and not is_title else named
    if anchor and anchor.position:
        position = anchor.position
    else:
        position = found_passages.passage_bounds(read, at.document_id).first
    reach = min(plan.reach, FARTHEST) if plan.mode == "chunk_with_siblings" else 0
    rows = found_passages.passages(read, at.document_id, max(1, position - reach), position + reach)
    excerpt = Excerpt(
        anchor=next((n for n, row in enumerate(rows) if row.position == position), 0),
        texts=[_text(opening, row) for row in rows],
        labels=[_sender(opening, row) for row in rows],
        heading=f"{at.title}{BETWEEN}" if is_title and at.title else "",
    )
    if loc.get("approx_offset") is not None:
        excerpt.place = place_in(excerpt.heading + excerpt.alone(), number_in(loc, "approx_offset"))
    content, is_truncated, first, last = cut(excerpt, plan)
    shown = [_attachment(opening, row) for row in rows[first : last + 1]]
    where = anchor if anchor and anchor.position else at
    return opening.response(where, content, truncated=is_truncated, attachments=shown or None)


def _message_at(opening: Opening, loc: Loc) -> FoundPassage:
    read, document_id = opening.read, opening.at.document_id
    for key in ("message_id", "native_id"):
        if loc.get(key) is not None:
            place = found_passages.passage_by_id(read, document_id, str(loc[key]))
            if place is None or not place.position:
                raise NotFound("message", str(loc[key]), "It is not in this conversation.")
            return found_passages.by_ids(read, [place.id])[place.id]
    for key, first in (("seq", 0), ("message_index", 1), ("index", 1)):
        if loc.get(key) is not None:
            wanted = number_in(loc, key) + first
            rows = found_passages.passages(read, document_id, wanted, wanted) if wanted > 0 else []
            if not rows:
                raise Refused(f"retrieval.loc.{key}: there is no such message in this conversation.")
            return found_passages.by_ids(read, [rows[0].id])[rows[0].id]
    raise Refused("retrieval.loc: name a message_id or a message_index.")


def open_page(opening: Opening, number: int, size: int) -> GetResponse:
    """A page of messages in order, with their texts, as far as the budget goes."""
    read, at, room = opening.read, opening.at, opening.plan.page_size
    total = found_passages.passage_bounds(read, at.document_id).count
    rows = found_passages.passage_page(read, at.document_id, size, (number - 1) * size)
    lines = [f"{_sender(opening, row)}: {_text(opening, row)}" for row in rows]
    content = BETWEEN.join(lines)
    paging = {"page": number, "page_size": size, "total_messages": total, "has_more": number * size < total}
    if len(content) <= room:
        messages = [_attachment(opening, row) | {"content": _text(opening, row)} for row in rows]
        return opening.response(at, content, truncated=False, attachments=messages, paging=paging)
    content = content[:room]
    shown: list[dict[str, Any]] = []
    begun, cursor = 0, None
    for row, line in zip(rows, lines, strict=True):
        if begun >= len(content):
            break
        shown.append(_attachment(opening, row))
        cursor = f"m:{row.position}:{len(content) - begun}"
        begun += len(line) + len(BETWEEN)
    return opening.response(at, content, truncated=True, next_cursor=cursor, attachments=shown or None, paging=paging)


def open_full(opening: Opening) -> GetResponse:
    """All messages as one text, in pages. The pages put together are the whole text."""
    read, at, room = opening.read, opening.at, opening.plan.page_size
    position, offset = parse_cursor(opening.plan.cursor, "m", 2) or (0, 0)
    last = found_passages.passage_bounds(read, at.document_id).last
    parts: list[str] = []
    shown: list[dict[str, Any]] = []
    used, after = 0, max(position - 1, 0)
    while rows := found_passages.passages_after(read, at.document_id, after, 200):
        for row in rows:
            separator = BETWEEN if row.position < last else ""
            begun = offset if row.position == position else 0
            text = f"{_sender(opening, row)}: {_text(opening, row)}{separator}"[begun:]
            if used + len(text) > room:
                taken = "" if parts else text[:room]
                cursor = f"m:{row.position}:{begun + len(taken)}" if parts or taken else None
                shown += [_attachment(opening, row)] if taken else []
                content = "".join([*parts, taken])
                return opening.response(at, content, truncated=True, next_cursor=cursor, attachments=shown or None)
            parts.append(text)
            shown.append(_attachment(opening, row))
            used += len(text)
        after = rows[-1].position
    return opening.response(at, "".join(parts), truncated=False, attachments=shown or None)


def _text(opening: Opening, row: PassageRow) -> str:
    if opening.at.source != "bus":
        return row.text
    return visibility.mask_text(opening.caller, row.data.get("metadata"), row.text)


def _sender(opening: Opening, row: PassageRow) -> str:
    name = row.data.get("author_name") if opening.at.source == "bus" else None
    author = None if opening.at.source == "sessions" else row.author
    return str(name or author or row.role or "unknown")


def _attachment(opening: Opening, row: PassageRow) -> dict[str, Any]:
    return {
        "message_id": row.native_id,
        "message_index": row.position - 1,
        "sender": _sender(opening, row),
        "created_at": iso(instant(row.created_at)) if row.created_at is not None else None,
    }
