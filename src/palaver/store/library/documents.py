"""Documents and passages: how every source is stored and indexed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, NamedTuple
from unicodedata import normalize

import orjson

from palaver.model.projects import EVERY_PROJECT, identity_of, is_called, names_of
from palaver.model.times import micros
from palaver.model.visibility import is_human_only
from palaver.store.engines.database import STEM, Change, IndexRow, PrepareText, PutOff, Reader, Row, role_scope
from palaver.store.engines.id_ranges import SUBSTRING_SOURCES, id_range_of
from palaver.text import tokenize
from palaver.text.checksum import checksum_of, checksum_of_bytes

SCOPES = "scopes"
"""The key in a passage's data under which its source stores further scope tokens."""
READ_AT_ONCE = 1_000
"""How many passages are read at once when the index is checked."""
PROJECT = "p"
"""Prefix of the scope token of a project."""
HUMAN_ONLY = "h"
"""The scope token of messages that agents may not read. Searches of agents exclude it."""


def encode_data(data: dict[str, Any]) -> str:
    """JSON without the values that are None."""
    return orjson.dumps({key: value for key, value in data.items() if value is not None}).decode()


def add_document(
    change: Change,
    *,
    source: str,
    native_id: str,
    title: str | None,
    created_at: datetime,
    data: dict[str, Any],
    agent_id: str | None = None,
    is_found_by_title: bool = True,
) -> int:
    row = change.must(
        "insert_document",
        source=source,
        native_id=native_id,
        title=title,
        agent_id=agent_id,
        created_at=micros(created_at),
        data=encode_data(data),
    )
    document_id: int = row["id"]
    if title and is_found_by_title:
        add_passage(change, source, NewPassage(document_id, 0, f"{native_id}#title", title, created_at, "title"))
    return document_id


class IndexedText(NamedTuple):
    """A text in the forms that the index stores: words, stems, and its substring form."""

    words: str
    stems: str
    substring: str | None
    prepared: object = None
    """What the engine made of them. Stems and substring are then empty."""


def indexed_text(source: str, text: str, prepare_text: PrepareText | None = None) -> IndexedText:
    substring = substring_form(text) if source in SUBSTRING_SOURCES else None
    if prepare_text and substring and len(text) <= tokenize.AT_ONCE:
        found = tokenize.words(text)
        if prepared := prepare_text(found, tokenize.stems(found), substring):
            return IndexedText(" ".join(found), "", None, prepared)
    return IndexedText(*tokenize.words_and_stems(text, STEM), substring)


class NewPassage(NamedTuple):
    document_id: int
    position: int
    native_id: str
    text: str
    created_at: datetime | None
    field: str = "content"
    role: str | None = None
    author: str | None = None
    author_id: str | None = None
    data: dict[str, Any] | None = None
    indexed: IndexedText | None = None
    """The index form of the text, if it was computed before."""


def _columns(new: NewPassage) -> dict[str, Any]:
    """The columns of a passage, in the order in which `insert_passages` takes them."""
    return {
        "document_id": new.document_id,
        "position": new.position,
        "native_id": new.native_id,
        "field": new.field,
        "role": new.role,
        "author": new.author,
        "author_id": new.author_id,
        "text": new.text,
        "created_at": micros(new.created_at) if new.created_at else None,
        "data": encode_data(new.data) if new.data else "{}",
        "checksum": checksum_of(new.text),
    }


def add_passage(change: Change, source: str, new: NewPassage) -> int:
    """Store and index a passage. Returns its id."""
    first, last = id_range_of(source, titles=new.field == "title")
    passage_id: int = change.must("insert_passage", first=first, last=last, **_columns(new))["id"]
    change.index_text(passage_id, len(new.text), partial(index_row, source, new), is_new=True)
    return passage_id


def add_passages(change: Change, source: str, passages: Iterable[NewPassage]) -> None:
    """Store and index many passages with few statements."""
    titles: list[NewPassage] = []
    others: list[NewPassage] = []
    for one in passages:
        (titles if one.field == "title" else others).append(one)
    for some in (titles, others):
        if not some:
            continue
        first, last = id_range_of(source, titles=some is titles)
        ids = orjson.loads(change.must("take_passage_ids", first=first, last=last, count=len(some))["ids"])
        rows = ((id, *_columns(new).values()) for id, new in zip(ids, some, strict=True))
        change.run_rows("insert_passages", rows)
        for id, new in zip(ids, some, strict=True):
            change.index_text(id, len(new.text), partial(index_row, source, new), is_new=True)


def index_row(source: str, passage: NewPassage) -> IndexRow:
    """The index row of a passage."""
    data = passage.data or {}
    scopes = scopes_of(source, passage.document_id, passage.field, passage.author_id, passage.role, data)
    words, stems, substring, prepared = passage.indexed or indexed_text(source, passage.text)
    created_at = micros(passage.created_at) if passage.created_at else None
    return IndexRow(scopes, words, stems, substring, created_at, prepared)


def index_row_of(source: str, row: Row) -> IndexRow:
    """The index row of a stored passage."""
    data = orjson.loads(row["data"])
    scopes = scopes_of(source, row["document_id"], row["field"], row["author_id"], row["role"], data)
    words, stems, substring, _ = indexed_text(source, row["text"])
    return IndexRow(scopes, words, stems, substring, row["created_at"])


def scopes_of(
    source: str, document_id: int, field: str, author_id: str | None, role: str | None, data: Mapping[str, Any]
) -> tuple[str, ...]:
    """The scope tokens of a passage: its source and kind, document, agent and role, and those its source adds."""
    scopes = [source, f"{source}{'title' if field == 'title' else 'body'}", document_scope(document_id)]
    if author_id:
        scopes.append(agent_scope(author_id))
    if role:
        scopes.append(role_scope(role))
    return (*scopes, *further_scopes(source, data))


def further_scopes(source: str, data: Mapping[str, Any]) -> tuple[str, ...]:
    """The scope tokens that a passage's own data adds."""
    if source == "bus":
        return (HUMAN_ONLY,) if is_human_only(data.get("metadata")) else ()
    return tuple(data.get(SCOPES, ()))


def substring_form(text: str) -> str:
    """The form of a text in which substrings are searched: normalized, without case."""
    return normalize("NFC", text).casefold()


def document_scope(document_id: int) -> str:
    """The scope token of a document."""
    return f"d{document_id}"


@lru_cache(maxsize=1024)
def agent_scope(agent_id: str) -> str:
    """The scope token of an agent."""
    return "a" + "".join(tokenize.words(agent_id))


@lru_cache(maxsize=1024)
def project_scope(name: str) -> str:
    """The scope token of a project, by its path or its name. Case does not matter."""
    folded = normalize("NFC", identity_of(name))
    return PROJECT + blake2b(folded.encode("utf-8", "replace"), digest_size=8).hexdigest()


def project_filter(name: str | None) -> tuple[str, ...]:
    """The scope tokens of a project filter: none without one, and for every project."""
    return (project_scope(name),) if name and name != EVERY_PROJECT else ()


def project_scopes(project: str | None) -> tuple[str, ...]:
    """The scope tokens of all passages in a project: one for its path, one for its name."""
    return tuple(dict.fromkeys(map(project_scope, names_of(project)))) if project else ()


def projects(read: Reader, source: str) -> list[str]:
    return [row["project"] for row in read.all("projects", source=source) if row["project"]]


def projects_named(read: Reader, source: str, name: str | None) -> str | None:
    """The projects of a source that match a filter, as JSON. None without a filter."""
    if name is None:
        return None
    known = projects(read, source)
    return orjson.dumps([project for project in known if is_called(project, name)]).decode()


def update_passage(change: Change, source: str, passage_id: int, changed: NewPassage) -> None:
    """Replace the text and the data of a passage."""
    columns = _columns(changed)
    change.run("update_passage", id=passage_id, **{name: columns[name] for name in ("text", "data", "checksum")})
    change.index_text(passage_id, len(changed.text), partial(index_row, source, changed), is_new=False)


def retitle(change: Change, *, source: str, document_id: int, title: str) -> None:
    row = change.must("title_passage", document_id=document_id)
    update_passage(change, source, row["id"], NewPassage(document_id, 0, "", title, None, "title"))


def backfill(change: Change, limit: int) -> int:
    """Index passages that are missing in the index, at most `limit`. Returns their number."""
    if mark := change.one("parts_mark"):
        return _backfill_parts(change, mark["value"], limit)
    rows = change.all("unindexed_passages", limit=limit)
    ids = orjson.dumps([row["id"] for row in rows if row["source"] in SUBSTRING_SOURCES]).decode()
    has_parts = {row["id"] for row in change.all("ids_in_substring_index", ids=ids)}
    for row in rows:
        wanted = index_row_of(row["source"], row)
        if row["id"] in has_parts:
            wanted = replace(wanted, substring=None)
        change.index(row["id"], wanted, is_new=True)
    return len(rows)


def unindexed(read: Reader, passage_ids: Iterable[int]) -> list[tuple[Row, IndexRow]]:
    """Those of some passages that are not in the index, each with its index row."""
    return [(row, index_row_of(row["source"], row)) for row in _unindexed(read, passage_ids)]


def index_put_off(change: Change, made: Sequence[tuple[Row, IndexRow]], put_off: Mapping[int, PutOff]) -> None:
    """Write index rows that were made before. A passage that has changed since then is left to its own change."""
    rows = {row["id"]: (row, index_row) for row, index_row in made}
    for document_id in {row["document_id"] for row, _ in made}:
        change.run("lock_item", id=document_id)
    change.all("lock_passages", ids=orjson.dumps(list(rows)).decode())
    for row in _unindexed(change, rows):
        before, index_row = rows[row["id"]]
        if row == before:
            change.index(row["id"], index_row, is_new=put_off[row["id"]].is_new)


def _unindexed(read: Reader, passage_ids: Iterable[int]) -> list[Row]:
    return read.all("unindexed_among", ids=orjson.dumps(list(passage_ids)).decode())


def has_marked_human_only(read: Reader) -> bool:
    """Do all human-only messages have their scope token? Early versions of 0.1 indexed them without it."""
    return read.one("human_only_mark") is not None


def mark_human_only(change: Change) -> None:
    """Index the human-only messages of an older database again, with their scope token."""
    first, last = id_range_of("bus")
    for row in change.all("maybe_human_only", first=first, last=last):
        if further_scopes("bus", orjson.loads(row["data"])):
            change.index(row["id"], index_row_of("bus", row), is_new=False)
    change.run("set_human_only_mark")


def is_complete(read: Reader) -> bool:
    """Are all passages in the index?"""
    return has_all_parts(read) and not read.all("unindexed_passages", limit=1)


def seems_complete(read: Reader) -> bool:
    """Does the index have as many rows as there are passages, or at least the newest passages? This is faster than
    `is_complete`, but it can say no for a complete index, because deleted documents are not indexed."""
    return has_all_parts(read) and bool(read.must("has_as_many_indexed")["is_so"])


def matches_texts(read: Reader) -> bool:
    """Does the search index have exactly the words of all texts? This reads every text."""
    return read.connection.dialect.holds(read.connection, _index_rows(read))


def _index_rows(read: Reader) -> Iterator[tuple[int, IndexRow]]:
    after = -1
    while rows := read.all("live_passages", after=after, limit=READ_AT_ONCE):
        yield from ((row["id"], index_row_of(row["source"], row)) for row in rows)
        after = rows[-1]["id"]


class DamagedText(NamedTuple):
    """A text that is not as it was written."""

    passage_id: int
    checksum: int
    text: str
    """As it is now, as far as it can be read."""


@dataclass(frozen=True, slots=True)
class CheckedTexts:
    """A slice of texts that were compared with their checksums. `last` is None after the last one."""

    last: int | None
    damaged: list[DamagedText]
    without_checksum: dict[int, int]
    """The checksums to add, by passage. Earlier versions did not store them."""


def check_texts(read: Reader, after: int, limit: int) -> CheckedTexts:
    rows = read.rows("passage_texts", after=after, limit=limit)
    damaged, without = [], {}
    for id, raw, checksum in rows:
        if checksum is None:
            without[id] = checksum_of_bytes(raw)
        elif checksum != checksum_of_bytes(raw):
            damaged.append(DamagedText(id, checksum, raw.decode("utf-8", "replace").replace("\0", "\ufffd")))
    return CheckedTexts(rows[-1][0] if len(rows) == limit else None, damaged, without)


def damaged_texts(read: Reader) -> list[DamagedText]:
    """All texts that are not as they were written."""
    found: list[DamagedText] = []
    after: int | None = -1
    while after is not None:
        checked = check_texts(read, after, READ_AT_ONCE)
        found += checked.damaged
        after = checked.last
    return found


def add_checksums(change: Change, checksums: dict[int, int]) -> None:
    for id, checksum in checksums.items():
        change.run("add_checksum", id=id, checksum=checksum)


def name_of_text(read: Reader, damaged: DamagedText) -> str:
    """The source and the id of a damaged text, for a person who looks for it."""
    row = read.must("passage_with_source", id=damaged.passage_id)
    return f"{row['source']} {row['native_id']}"


def restore_text(change: Change, damaged: DamagedText, copies: Callable[[str, str, str], Iterable[str]]) -> bool:
    """Take back the copy of a damaged text that has its checksum. Without one, the text stays as it can be read now.

    `copies` gets the source, the id of the passage and the id of its document. Returns whether there was a copy.
    """
    row = change.must("passage_with_source", id=damaged.passage_id)
    found = copies(row["source"], row["native_id"], row["document"])
    copy = next((text for text in found if checksum_of(text) == damaged.checksum), None)
    text = damaged.text if copy is None else copy
    change.run("update_passage", id=row["id"], text=text, data=row["data"], checksum=checksum_of(text))
    change.index(row["id"], index_row_of(row["source"], {**row, "text": text}), is_new=False)
    return copy is not None


def has_all_parts(read: Reader) -> bool:
    """Is the substring index complete?"""
    return read.one("parts_mark") is None


def _backfill_parts(change: Change, after: int, limit: int) -> int:
    first, last = id_range_of("archive")[0], id_range_of("archive", titles=True)[1]
    rows = change.all("passages_without_parts", after=after, first=first, last=last, limit=limit)
    texts = {row["id"]: substring_form(row["text"]) for row in rows}
    change.connection.dialect.write_parts(change.connection, texts, {row["id"]: row["created_at"] for row in rows})
    if rows:
        change.run("move_parts_mark", value=rows[-1]["id"])
    else:
        change.run("forget_parts_mark")
    return 1 + len(rows)


def remove_passage(change: Change, passage_id: int) -> None:
    change.run("delete_passage", id=passage_id)
    change.unindex(passage_id)


def remove_passages(change: Change, document_id: int) -> None:
    """Delete all passages of a document."""
    for row in change.all("passage_ids", document_id=document_id):
        change.unindex(row["id"])
    change.run("delete_passages", document_id=document_id)


def set_project(change: Change, source: str, document_id: int, data: Mapping[str, Any]) -> None:
    """Set the data of a document, whose project is new, and index its passages again."""
    change.run("set_session_data", id=document_id, data=encode_data(dict(data)))
    scopes = project_scopes(data.get("project"))
    for row in whole_passages(change, document_id):
        index_again(change, source, row, {**orjson.loads(row["data"]), SCOPES: scopes})


def whole_passages(read: Reader, document_id: int) -> list[Row]:
    return read.all("whole_passages_of_document", document_id=document_id)


def index_again(change: Change, source: str, row: Row, data: dict[str, Any] | None = None) -> None:
    """Index a stored passage again, with new data if it is given."""
    if data is not None:
        row = {**row, "data": encode_data(data)}
        change.run("set_passage_data", id=row["id"], data=row["data"])
    change.index_text(row["id"], len(row["text"]), partial(index_row_of, source, row), is_new=False)


def remove_document(change: Change, document_id: int) -> None:
    """Delete a document, its passages and their index rows for good."""
    for row in change.all("passage_ids", document_id=document_id):
        change.unindex(row["id"])
    change.run("delete_document", id=document_id)
