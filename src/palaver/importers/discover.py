"""Find the files to import in folders and zips, and give each to the importer that recognises its content.

`find_sources` yields one `ImportSource` for each importer and place; a place is a path that was named, or a zip. All
files of one export are one source, and so are all sessions below a folder. Only the heads of files are read here.
Nothing is written, and links out of a folder are not followed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path, PurePosixPath

from palaver.importers import BYTE_ORDER_MARK, Unreadable, clean
from palaver.importers.chats import chatgpt
from palaver.importers.files import file_context
from palaver.importers.files.json_stream import LEADING_BYTES
from palaver.importers.files.sqlite_file import IN_A_ZIP, find_damage
from palaver.importers.files.sqlite_file import MAGIC as SQLITE
from palaver.importers.files.streams import ZSTD, count_reads, open_unpacked
from palaver.importers.files.zips import MAGIC as ZIP
from palaver.importers.files.zips import Zip
from palaver.importers.item import (
    EXPECTED,
    HEAD_BYTES,
    Item,
    Skipped,
    describe_problem,
    native_id,
    printable,
    storable_conversation,
)
from palaver.importers.library import epub
from palaver.importers.library.item_text import storable
from palaver.importers.registry import AnyImporter, all_importers, is_built_in, is_library
from palaver.model.library import Conversation, ImportedPiece
from palaver.model.times import EPOCH
from palaver.text.tool_output import ToolOutput

__all__ = ["ImportSource", "Item", "Skipped", "find_sources"]

log = logging.getLogger("palaver")

MOST_REMEMBERED = 1_000_000
"""The number of conversation ids that are remembered to notice duplicates."""

NOTHING_FOUND = "nothing of a known kind in it"
TO_CONVERT = {
    (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf\x27\x1c", b"Rar!"): "packed, but not as a zip; unpack it first",
    (b"\xff\xfe", b"\xfe\xff"): "text in UTF-16; save it as UTF-8 and import that",
}
"""How files begin that can be imported after the user has converted them."""

_NEVER_IMPORTED = re.compile(
    r"\.(?:jpe?g|webp|gif|heic|svg|ico|wav|mp3|m4a|ogg|opus|mp4|mov|webm|css|js|py|xlsx|od[ts]|jar|apk|whl|vsix)",
    re.IGNORECASE,
)

_DOCUMENT = re.compile(r".*\.(?:docx|docm|pptx|pptm|epub)", re.IGNORECASE)

# Files of an export that never hold conversations.
_COMPANION = re.compile(
    r"users?\.json|user_settings\.json|export_manifest\.json|message_feedback\.json|shared_conversations\.json"
    r"|model_comparisons\.json|group_chats\.json|shopping\.json|sora\.json|memories\.json|projects\.json|.*\.meta\.json"
    r"|chat\.html|session_index\.jsonl",
    re.IGNORECASE,
)


@dataclass
class ImportSource:
    """The files of one importer in one place."""

    importer: str
    label: str
    size: int
    contents: Callable[[], Iterator[Conversation | ImportedPiece | Skipped]] = lambda: iter(())
    """Reads the conversations and the pieces of the library. It never raises. The id of a conversation is repeated only
    if a newer version follows an older one."""
    read: int = 0
    """The number of bytes read so far, of `size`."""


def find_sources(
    paths: Iterable[Path], *, are_uploads: bool = False, tool_output: ToolOutput = "full"
) -> Iterator[ImportSource | Skipped]:
    """Find what can be imported at these paths. For uploads only the names of the files count, not their folders."""
    importers: list[AnyImporter] = []
    for importer in all_importers():
        if isinstance(importer, Skipped):
            yield importer
        else:
            importers.append(importer)
    for path in paths:
        place = _Place(printable(str(path)), importers, tool_output)
        try:
            kind = path.stat().st_mode
            if stat.S_ISDIR(kind):
                yield from _add_folder(path, place)
            elif stat.S_ISREG(kind):
                place.is_named = True
                base = file_context.base_of(path.parent)
                inside = f"upload/{path.name}" if are_uploads else clean(file_context.inside(path, base))
                yield from _add_file(_item(path, place.label, inside), place)
            else:
                raise Unreadable("neither a file nor a folder")
        except Exception as problem:
            yield Skipped(place.label, describe_problem(problem), is_error=True)
            continue
        yield from place.sources()
        if not place.has_reported:
            yield Skipped(place.label, NOTHING_FOUND, is_error=True)


@dataclass
class _Place:
    """The files of a named path or a zip, sorted by importer."""

    label: str
    importers: list[AnyImporter]
    tool_output: ToolOutput
    is_named: bool = False
    """Whether the user named this file. Then it is an error if it cannot be read."""
    items: dict[int, list[Item]] = field(default_factory=lambda: defaultdict(list))
    """The files of each importer, by its number in `importers`."""
    zips: list[Zip] = field(default_factory=list)
    """The zips that were opened, inner ones last."""
    unknown: list[str] = field(default_factory=list)
    """The names of a few files that no importer recognised."""
    unknown_count: int = 0
    has_reported: bool = False

    def skip(self, name: str, why: str) -> Skipped:
        self.has_reported = True
        return Skipped(name, why, is_error=self.is_named)

    def close(self) -> None:
        for archive in reversed(self.zips):
            archive.close()

    def sources(self) -> Iterator[ImportSource | Skipped]:
        yield from self._skip_attachments()
        for n, items in self.items.items():
            self.has_reported = True
            # An export in numbered files may have all conversations in one more file, which is then left out.
            sharded = {
                _folder(item) for item in items if (name := chatgpt.FILE.fullmatch(item.file_name)) and name["shard"]
            }
            copies = [
                item for item in items if item.file_name.lower() == "conversations.json" and _folder(item) in sharded
            ]
            for item in copies:
                yield Skipped(item.name, "the same conversations are in the numbered files beside it")
            chosen = [item for item in items if item not in copies] if copies else items
            importer = self.importers[n]
            source = ImportSource(importer.name, self.label, sum(item.size for item in chosen))
            source.contents = partial(_read, self, importer, chosen, source)
            yield source
        if self.items and self.unknown_count:
            names = ", ".join(self.unknown) + (" …" if self.unknown_count > len(self.unknown) else "")
            yield Skipped(self.label, f"nothing of a known kind in {names}", self.unknown_count)

    def _skip_attachments(self) -> Iterator[Skipped]:
        """Leave out library files in the folders of a chat history: attachments, and notes of an agent."""
        chats = {n: items for n, items in self.items.items() if not is_library(self.importers[n])}
        tops = file_context.histories([_folder(item) for item in items] for items in chats.values())
        left_out = 0
        for n, items in list(self.items.items()):
            if n in chats or not tops:
                continue
            kept = [item for item in items if not file_context.is_below(_folder(item), tops)]
            left_out += sum(not _COMPANION.fullmatch(item.file_name) for item in items) - len(kept)
            self.items[n] = kept
            if not kept:
                del self.items[n]
        if left_out:
            yield Skipped(self.label, file_context.IN_A_HISTORY, left_out)


def _folder(item: Item) -> str:
    return item.name.removesuffix(item.file_name)


def _item(path: Path, shown: str, inside: str) -> Item:
    return Item(shown, path.stat().st_size, path, lambda: path.open("rb"), inside)


# Folders, files and zips


def _add_folder(folder: Path, place: _Place) -> Iterator[ImportSource | Skipped]:
    os.scandir(folder).close()  # raises an error if the folder may not be read
    unreadable: list[OSError] = []
    root = os.path.realpath(folder)
    walk = file_context.Walk(folder, file_context.base_of(folder))
    for parent, folders, files in os.walk(folder, onerror=unreadable.append):
        folders.sort()
        walk.enter(parent, files)
        for name in [*folders, *sorted(files)]:
            path = Path(parent, name)
            shown = printable(f"{place.label}/{path.relative_to(folder).as_posix()}")
            if path.is_symlink():
                if not Path(os.path.realpath(path)).is_relative_to(root):
                    yield Skipped(shown, "a link that leads out of the folder")
            elif name in files and not _NEVER_IMPORTED.fullmatch(path.suffix) and not name.startswith("._"):
                is_kept = walk.keeps(path)
                if not is_kept and file_context.FILES.fullmatch(path.suffix):
                    continue
                try:
                    if stat.S_ISREG(path.stat().st_mode):
                        inside = clean(file_context.inside(path, walk.base)) if is_kept else ""
                        yield from _add_file(_item(path, shown, inside), place)
                except OSError as problem:
                    yield place.skip(shown, describe_problem(problem))
    if walk.left_out:
        yield Skipped(place.label, file_context.IN_CODE, walk.left_out)
    for closed in unreadable:
        yield place.skip(printable(str(closed.filename)), describe_problem(closed))


def _add_file(item: Item, place: _Place, inner: Zip | None = None, depth: int = 0) -> Iterator[ImportSource | Skipped]:
    """Add a file to a place. A zip is a place of its own, unless it is in a zip: then `inner` reads it."""
    try:
        head = _read_head(item)
    except Exception as problem:
        yield place.skip(item.name, describe_problem(problem))
        return
    is_document = _DOCUMENT.fullmatch(item.file_name) or epub.recognises(item, head)  # an importer reads it as a whole
    if not head.startswith(ZIP) or is_document:
        yield from _assign(item, head, place)
    elif depth > 1:
        yield place.skip(item.name, "a zip in a zip in a zip; unpack it and import the folder")
    elif inner:
        yield from _add_zip(inner, item.name, place, depth)
    else:
        of_zip = _Place(item.name, place.importers, place.tool_output, is_named=place.is_named)
        try:
            yield from _add_zip(Zip(item.size, item.open), item.name, of_zip)
        finally:
            of_zip.close()
        yield from of_zip.sources()
        place.has_reported |= of_zip.has_reported


def _add_zip(archive: Zip, label: str, place: _Place, depth: int = 0) -> Iterator[ImportSource | Skipped]:
    place.zips.append(archive)
    try:
        files = list(archive.files())
    except Exception as problem:
        yield place.skip(label, describe_problem(problem))
        return
    for twice in (name for name, count in Counter(info.filename for info in files).items() if count > 1):
        yield Skipped(
            printable(f"{label} › {twice}"), "the zip has several files of this name; all of them are read", 0
        )
    for info in files:
        name = PurePosixPath(info.filename)
        is_kept = not file_context.is_private(name)
        if _NEVER_IMPORTED.fullmatch(name.suffix) or (not is_kept and file_context.FILES.fullmatch(name.suffix)):
            continue
        inside = file_context.inside_zip(label.rpartition("/")[2].rpartition(" › ")[2], clean(info.filename))
        shown = printable(f"{label} › {info.filename}")
        item = Item(shown, info.file_size, None, partial(archive.stream, info), inside if is_kept else "")
        if refusal := archive.refusal(info):
            yield place.skip(item.name, refusal)
        else:
            inner = Zip(info.file_size, partial(archive.seekable, info))
            yield from _add_file(item, place, inner, depth + 1)


def _read_head(item: Item) -> bytes:
    with item.open() as source:
        head = source.read(HEAD_BYTES).removeprefix(BYTE_ORDER_MARK)
    if head.startswith(ZSTD):
        try:
            with open_unpacked(item) as source:
                return source.read(HEAD_BYTES)
        except Exception:  # damaged, or there is no codec; an importer may still recognise its name
            return head
    return head


def _assign(item: Item, head: bytes, place: _Place) -> Iterator[Skipped]:
    """Give a file to the first importer that recognises it. A file in a private folder is not for the library."""
    for n, importer in enumerate(place.importers):
        if not item.inside and is_library(importer):
            continue
        try:
            if importer.recognises(item, head):
                place.items[n].append(item)
                return
        except Exception as problem:
            why = printable(f"{type(problem).__name__}: {problem}")
            yield Skipped(item.name, f"the importer {printable(importer.name)} fails ({why})")
    to_convert = next((why for signs, why in TO_CONVERT.items() if head.startswith(signs)), None)
    is_data = head.startswith((SQLITE, ZSTD)) or head.lstrip(LEADING_BYTES).startswith((b"{", b"["))
    if head.startswith(SQLITE) and item.path is None:
        yield place.skip(item.name, IN_A_ZIP)
    elif head.startswith(SQLITE) and item.path is not None and (damage := find_damage(item.path)):
        yield place.skip(item.name, damage)
    elif place.is_named and to_convert:
        yield place.skip(item.name, to_convert)
    elif item.inside and is_data and not _COMPANION.fullmatch(item.file_name):
        place.unknown_count += 1
        place.unknown += [item.file_name] if len(place.unknown) < 3 else []


# Reading


def _read(
    place: _Place, importer: AnyImporter, items: list[Item], source: ImportSource
) -> Iterator[Conversation | ImportedPiece | Skipped]:
    def count(read: int) -> None:
        source.read += read

    source.read = 0
    newest: dict[bytes, datetime] = {}
    is_ours = is_built_in(importer)
    try:
        for item in items:
            before = source.read
            opened = partial(lambda open: count_reads(open(), count), item.open)
            counted = replace(item, open=opened, tool_output=place.tool_output)
            for method, given in (("conversations", counted), ("pieces", item)):
                read = getattr(importer, method, lambda item: ())
                try:
                    for one in read(given):
                        if isinstance(one, Skipped):
                            yield one
                        elif isinstance(one, ImportedPiece):
                            yield one if is_ours else ImportedPiece(native_id(one.origin) or "", storable(one.piece))
                        elif _is_newest(made := one if is_ours else storable_conversation(one), newest):
                            yield made
                        else:
                            why = "a conversation that is in it twice, or no newer than in another file"
                            yield Skipped(item.name, why)
                except Exception as problem:
                    if is_ours and not isinstance(problem, EXPECTED):
                        log.debug("%s: %s", importer.name, item.name, exc_info=problem)
                    yield place.skip(item.name, describe_problem(problem))  # what came before is kept
            source.read = before + item.size
    finally:
        place.close()


def _is_newest(one: Conversation, newest: dict[bytes, datetime]) -> bool:
    """Whether this is the newest version so far of the conversation in one place."""
    key = hashlib.blake2b(one.id.encode(), digest_size=12).digest()
    at = one.updated_at or EPOCH
    if key in newest and newest[key] >= at:
        return False
    newest[key] = at
    if len(newest) > MOST_REMEMBERED:
        del newest[next(iter(newest))]
    return True
