"""Finding conversations and what else people keep: in files, folders and zips, by what is in them.

`look` walks the paths it is given and tells what it found: one `Found` for each importer and place, where a place is a
named path or a zip. The shards of an export are one `Found`, and so are all sessions below a folder. Nothing is read to
its end before it is asked for, nothing is written, and links out of a folder are not followed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import entry_points
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeGuard

from palaver.importers import MARK, Unreadable, clean
from palaver.importers.chats import (
    canonical_db,
    chatgpt,
    claude_ai,
    claude_code,
    codex,
    codex_json,
    cursor,
    gemini,
    palaver_export,
)
from palaver.importers.chats.session_files import SessionFiles
from palaver.importers.files import file_context, zstd
from palaver.importers.files.json_stream import BEFORE
from palaver.importers.files.lines import opened
from palaver.importers.files.sqlite_file import MAGIC as SQLITE
from palaver.importers.files.sqlite_file import damage
from palaver.importers.files.stream_limits import counted
from palaver.importers.files.zips import MAGIC as ZIP
from palaver.importers.files.zips import Zip
from palaver.importers.item import HEAD, Draft, Importer, Item, LibraryImporter, Skipped, gather, native_id
from palaver.importers.library import (
    character_cards,
    epub,
    notes,
    office,
    pdf,
    plain_text,
    prompt_files,
    recordings,
    web_pages,
)
from palaver.importers.library.item_text import storable
from palaver.model.library import Brought, Conversation
from palaver.model.times import EPOCH
from palaver.text.tool_output import ToolOutput

__all__ = ["IMPORTERS", "LIBRARY", "Found", "Importer", "Item", "Skipped", "look"]

log = logging.getLogger("palaver")

IMPORTERS: tuple[Importer, ...] = (
    palaver_export,
    canonical_db,
    cursor,
    gemini,
    chatgpt,
    claude_ai,
    codex_json,
    SessionFiles("codex", codex),
    SessionFiles("claude-code", claude_code),
)
"""The first that recognises a file has it. Those of other packages are asked after these, and then the library's."""

LIBRARY: tuple[LibraryImporter, ...] = (
    character_cards,
    prompt_files,
    recordings,
    notes,
    pdf,
    epub,
    office,
    web_pages,
    plain_text,
)

GROUP = "palaver.importers"
MOST_REMEMBERED = 1_000_000

NOTHING = "nothing of a known kind in it"
ELSEWHERE = {
    (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf\x27\x1c", b"Rar!"): "packed, but not as a zip; unpack it first",
    (b"\xff\xfe", b"\xfe\xff"): "text in UTF-16; save it as UTF-8 and import that",
}
"""How files begin that may hold something once somebody else has had a hand in it."""
IN_A_ZIP = "a database inside a zip; unpack it and import the file"

_NEVER = re.compile(
    r"\.(?:jpe?g|webp|gif|heic|svg|ico|wav|mp3|m4a|ogg|opus|mp4|mov|webm|css|js|py|xlsx|od[ts]|jar|apk|whl|vsix)",
    re.IGNORECASE,
)

_DOCUMENT = re.compile(r".*\.(?:docx|docm|pptx|pptm|epub)", re.IGNORECASE)

# What comes along with conversations and never holds any.
_COMPANION = re.compile(
    r"users?\.json|user_settings\.json|export_manifest\.json|message_feedback\.json|shared_conversations\.json"
    r"|model_comparisons\.json|group_chats\.json|shopping\.json|sora\.json|memories\.json|projects\.json|.*\.meta\.json"
    r"|chat\.html|session_index\.jsonl",
    re.IGNORECASE,
)


@dataclass
class Found:
    """Conversations that can be had, or pieces of the library."""

    importer: str
    label: str
    size: int
    conversations: Callable[[], Iterator[Conversation | Skipped]] = lambda: iter(())
    """Never raises. An id comes again only where a newer version of the conversation follows an older one."""
    pieces: Callable[[], Iterator[Brought | Skipped]] = lambda: iter(())
    """Never raises. Most importers have either the one or the other."""
    read: int = 0
    """How many of the `size` bytes have been read: for a progress bar."""


def look(
    paths: Iterable[Path], *, are_uploads: bool = False, tool_output: ToolOutput = "full"
) -> Iterator[Found | Skipped]:
    """What is at these paths. Of uploads only the names of the files count, not where they are kept meanwhile."""
    importers: list[Importer | LibraryImporter] = list(IMPORTERS)
    for importer in _from_others():
        if isinstance(importer, Skipped):
            yield importer
        else:
            importers.append(importer)
    importers += LIBRARY
    for path in paths:
        place = _Place(_shown(str(path)), importers, tool_output)
        try:
            kind = path.stat().st_mode
            if stat.S_ISDIR(kind):
                yield from _in_folder(path, place)
            elif stat.S_ISREG(kind):
                place.is_named = True
                inside = f"upload/{path.name}" if are_uploads else _inside(path, file_context.base_of(path.parent))
                yield from _at(_item(path, place.label, inside), place)
            else:
                raise Unreadable("neither a file nor a folder")
        except Exception as problem:
            yield Skipped(place.label, why(problem), is_error=True)
            continue
        yield from place.found()
        if not place.has_told:
            yield Skipped(place.label, NOTHING, is_error=True)


def _from_others() -> Iterator[Importer | LibraryImporter | Skipped]:
    """Importers of other packages, as far as they work."""
    for entry in entry_points(group=GROUP):
        try:
            importer = entry.load()
            gives = [getattr(importer, name, None) for name in ("conversations", "pieces")]
            if not (isinstance(importer.name, str) and callable(importer.recognises) and any(map(callable, gives))):
                raise TypeError("not an importer")
        except Exception as problem:
            yield Skipped(_shown(f"importer {entry.name}"), f"it cannot be loaded ({_said(problem)})")
        else:
            yield importer


# What stands where


@dataclass
class _Place:
    """What has been found in one place, by importer."""

    label: str
    importers: list[Importer | LibraryImporter]
    tool_output: ToolOutput
    is_named: bool = False
    items: dict[int, list[Item]] = field(default_factory=lambda: defaultdict(list))
    zips: list[Zip] = field(default_factory=list)
    """That have been opened, those within others last."""
    others: list[str] = field(default_factory=list)
    """Files that might have been something: only a few of their names are kept."""
    count_of_others: int = 0
    has_told: bool = False

    def skip(self, name: str, why: str) -> Skipped:
        self.has_told = True
        return Skipped(name, why, is_error=self.is_named)

    def close(self) -> None:
        for archive in reversed(self.zips):
            archive.close()

    def pass_over(self, item: Item) -> None:
        if _COMPANION.fullmatch(item.file_name):
            return
        self.count_of_others += 1
        self.others += [item.file_name] if len(self.others) < 3 else []

    def found(self) -> Iterator[Found | Skipped]:
        yield from self._without_company()
        for n, items in self.items.items():
            self.has_told = True
            chosen, copies = _without_copies(items)
            for item in copies:
                yield Skipped(item.name, "the same conversations are in the numbered files beside it")
            importer = self.importers[n]
            found = Found(importer.name, self.label, sum(item.size for item in chosen))
            if _tells(importer):
                found.conversations = _reading(self, importer, chosen, found)
            if _keeps(importer):
                found.pieces = _reading_pieces(self, importer, chosen, found)
            yield found
        if self.items and self.count_of_others:
            names = ", ".join(self.others) + (" …" if self.count_of_others > len(self.others) else "")
            yield Skipped(self.label, f"nothing of a known kind in {names}", self.count_of_others)

    def _without_company(self) -> Iterator[Skipped]:
        """Leave out what merely stands beside conversations: attachments, what an agent wrote down for itself."""
        ours = {n: items for n, items in self.items.items() if not _is_of_library(self.importers[n])}
        tops = file_context.histories([_folder(item) for item in items] for items in ours.values())
        left_out = 0
        for n, items in list(self.items.items()):
            if n in ours or not tops:
                continue
            stay = [item for item in items if not file_context.is_below(_folder(item), tops)]
            left_out += sum(not _COMPANION.fullmatch(item.file_name) for item in items) - len(stay)
            self.items[n] = stay
            if not stay:
                del self.items[n]
        if left_out:
            yield Skipped(self.label, file_context.IN_A_HISTORY, left_out)


def _tells(importer: Importer | LibraryImporter) -> TypeGuard[Importer]:
    return hasattr(importer, "conversations")


def _keeps(importer: Importer | LibraryImporter) -> TypeGuard[LibraryImporter]:
    return hasattr(importer, "pieces")


def _is_of_library(importer: Importer | LibraryImporter) -> bool:
    return any(importer is ours for ours in LIBRARY)


def _without_copies(items: list[Item]) -> tuple[list[Item], list[Item]]:
    """An export in numbered files may have them all in one file as well, which then is left out."""
    sharded = {_folder(item) for item in items if (name := chatgpt.FILE.fullmatch(item.file_name)) and name["shard"]}
    copies = [item for item in items if item.file_name.lower() == "conversations.json" and _folder(item) in sharded]
    return [item for item in items if item not in copies] if copies else items, copies


def _folder(item: Item) -> str:
    return item.name.removesuffix(item.file_name)


def _in_folder(folder: Path, place: _Place) -> Iterator[Found | Skipped]:
    os.scandir(folder).close()  # whether it may be read at all
    unreadable: list[OSError] = []
    root = os.path.realpath(folder)
    walk = file_context.Walk(folder, file_context.base_of(folder))
    for parent, folders, files in os.walk(folder, onerror=unreadable.append):
        folders.sort()
        walk.enter(parent, files)
        for name in [*folders, *sorted(files)]:
            path = Path(parent, name)
            shown = _shown(f"{place.label}/{path.relative_to(folder).as_posix()}")
            if path.is_symlink():
                if not Path(os.path.realpath(path)).is_relative_to(root):
                    yield Skipped(shown, "a link that leads out of the folder")
            elif name in files and not _NEVER.fullmatch(path.suffix) and not name.startswith("._"):
                is_kept = walk.keeps(path)
                if not is_kept and file_context.FILES.fullmatch(path.suffix):
                    continue
                try:
                    if stat.S_ISREG(path.stat().st_mode):
                        yield from _at(_item(path, shown, _inside(path, walk.base) if is_kept else ""), place)
                except OSError as problem:
                    yield place.skip(shown, why(problem))
    if walk.left_out:
        yield Skipped(place.label, file_context.IN_CODE, walk.left_out)
    for closed in unreadable:
        yield place.skip(_shown(str(closed.filename)), why(closed))


def _item(path: Path, shown: str, inside: str) -> Item:
    return Item(shown, path.stat().st_size, path, lambda: path.open("rb"), inside)


def _inside(path: Path, base: Path) -> str:
    return clean(file_context.inside(path, base))


def _at(item: Item, place: _Place) -> Iterator[Found | Skipped]:
    """One file: a zip is a place of its own."""
    try:
        head = _head(item)
    except Exception as problem:
        yield place.skip(item.name, why(problem))
        return
    if head.startswith(ZIP) and not _is_document(item, head):
        inner = _Place(item.name, place.importers, place.tool_output, is_named=place.is_named)
        yield from _in_zip(Zip(item.size, item.open), inner)
        place.has_told |= inner.has_told
    else:
        yield from _sort(item, head, place)


def _in_zip(archive: Zip, place: _Place) -> Iterator[Found | Skipped]:
    try:
        yield from _entries(archive, place.label, place)
    finally:
        place.close()
    yield from place.found()


def _entries(archive: Zip, label: str, place: _Place, *, depth: int = 1) -> Iterator[Skipped]:
    place.zips.append(archive)
    try:
        files = list(archive.files())
    except Exception as problem:
        yield place.skip(label, why(problem))
        return
    for twice in (name for name, count in Counter(info.filename for info in files).items() if count > 1):
        yield Skipped(_shown(f"{label} › {twice}"), "the zip has several files of this name; all of them are read", 0)
    for info in files:
        name = PurePosixPath(info.filename)
        is_kept = not file_context.is_private(name)
        if _NEVER.fullmatch(name.suffix) or (not is_kept and file_context.FILES.fullmatch(name.suffix)):
            continue
        inside = file_context.inside_zip(label.rpartition("/")[2].rpartition(" › ")[2], clean(info.filename))
        shown = _shown(f"{label} › {info.filename}")
        item = Item(shown, info.file_size, None, _opening(archive, info), inside if is_kept else "")
        if refusal := archive.refusal(info):
            yield place.skip(item.name, refusal)
            continue
        try:
            head = _head(item)
        except Exception as problem:
            yield place.skip(item.name, why(problem))
            continue
        if not head.startswith(ZIP) or _is_document(item, head):
            yield from _sort(item, head, place)
        elif depth > 1:
            yield place.skip(item.name, "a zip in a zip in a zip; unpack it and import the folder")
        else:
            yield from _entries(Zip(info.file_size, _seeking(archive, info)), item.name, place, depth=depth + 1)


def _is_document(item: Item, head: bytes) -> bool:
    """Some documents are zips inside, and not opened as such."""
    return bool(_DOCUMENT.fullmatch(item.file_name)) or epub.recognises(item, head)


def _opening(archive: Zip, info: zipfile.ZipInfo) -> Callable[[], Any]:
    return lambda: archive.stream(info)


def _seeking(archive: Zip, info: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.seekable(info)


def _head(item: Item) -> bytes:
    with item.open() as source:
        head = source.read(HEAD).removeprefix(MARK)
    if head.startswith(zstd.MAGIC):
        try:
            with opened(item) as source:
                return source.read(HEAD)
        except Exception:  # without a codec, or damaged: its name may still tell what it is
            return head
    return head


def _sort(item: Item, head: bytes, place: _Place) -> Iterator[Skipped]:
    """Whose file it is. One without a name of its own is not for the library."""
    for n, importer in enumerate(place.importers):
        if not item.inside and _is_of_library(importer):
            continue
        try:
            if importer.recognises(item, head):
                place.items[n].append(item)
                return
        except Exception as problem:
            yield Skipped(item.name, f"the importer {_shown(importer.name)} fails ({_said(problem)})")
    other = next((why for signs, why in ELSEWHERE.items() if head.startswith(signs)), None)
    if head.startswith(SQLITE) and item.path is None:
        yield place.skip(item.name, IN_A_ZIP)
    elif head.startswith(SQLITE) and item.path is not None and (found := damage(item.path)):
        yield place.skip(item.name, found)
    elif place.is_named and other:
        yield place.skip(item.name, other)
    elif item.inside and (head.startswith((SQLITE, zstd.MAGIC)) or head.lstrip(BEFORE).startswith((b"{", b"["))):
        place.pass_over(item)


# Reading it


def _reading(
    place: _Place, importer: Importer, items: list[Item], found: Found
) -> Callable[[], Iterator[Conversation | Skipped]]:
    def count(read: int) -> None:
        found.read += read

    def conversations() -> Iterator[Conversation | Skipped]:
        found.read = 0
        newest: dict[bytes, datetime] = {}
        try:
            for item in items:
                before = found.read
                wanted = replace(_counted(item, count), tool_output=place.tool_output)
                for one in _guarded(place, importer, wanted):
                    if isinstance(one, Conversation) and not _is_news(one, newest):
                        yield Skipped(item.name, "a conversation that is in it twice, or no newer than in another file")
                    else:
                        yield one
                found.read = before + item.size
        finally:
            place.close()

    return conversations


def _reading_pieces(
    place: _Place, importer: LibraryImporter, items: list[Item], found: Found
) -> Callable[[], Iterator[Brought | Skipped]]:
    def pieces() -> Iterator[Brought | Skipped]:
        found.read = 0
        try:
            for item in items:
                try:
                    for one in importer.pieces(item):
                        yield one if _is_of_library(importer) or isinstance(one, Skipped) else _fit(one)
                except Exception as problem:
                    yield _trouble(place, importer, item, problem)
                found.read += item.size
        finally:
            place.close()

    return pieces


def _counted(item: Item, count: Callable[[int], None]) -> Item:
    return replace(item, open=lambda: counted(item.open(), count))


def _is_news(one: Conversation, newest: dict[bytes, datetime]) -> bool:
    """Of two versions in one place the newer one counts, wherever it stands."""
    key = hashlib.blake2b(one.id.encode(), digest_size=12).digest()
    at = one.updated_at or EPOCH
    if key in newest and newest[key] >= at:
        return False
    newest[key] = at
    if len(newest) > MOST_REMEMBERED:
        del newest[next(iter(newest))]
    return True


def _guarded(place: _Place, importer: Importer, item: Item) -> Iterator[Conversation | Skipped]:
    """Whatever goes wrong is told, and what came before is kept."""
    is_ours = any(importer is ours for ours in IMPORTERS)
    try:
        for one in importer.conversations(item):
            yield one if is_ours or isinstance(one, Skipped) else _storable(one)
    except Exception as problem:
        yield _trouble(place, importer, item, problem)


def _trouble(place: _Place, importer: Importer | LibraryImporter, item: Item, problem: Exception) -> Skipped:
    is_ours = any(importer is ours for ours in (*IMPORTERS, *LIBRARY))
    if is_ours and not isinstance(problem, _EXPECTED):
        log.debug("%s: %s", importer.name, item.name, exc_info=problem)
    return place.skip(item.name, why(problem))


def _fit(one: Brought) -> Brought:
    """What others' importers give, made fit to be kept."""
    return Brought(native_id(one.origin) or "", storable(one.piece))


def _storable(one: Conversation) -> Conversation:
    """What others' importers give, made fit to be kept."""
    messages = gather(Draft(said.id, clean(said.role), said.text, _aware(said.ts)) for said in one.messages)
    return Conversation(
        id=_shown(one.id),
        origin=_shown(one.origin),
        title=_shown(one.title),
        created_at=_aware(one.created_at),
        updated_at=_aware(one.updated_at),
        messages=messages.said,
        is_titled=one.is_titled,
    )


def _aware(ts: datetime | None) -> datetime | None:
    return ts.replace(tzinfo=UTC) if isinstance(ts, datetime) and ts.tzinfo is None else ts


# Words for people

_EXPECTED = (Unreadable, OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, MemoryError)


def why(problem: Exception) -> str:
    match problem:
        case Unreadable():
            return str(problem)
        case FileNotFoundError():
            return "there is nothing at this path"
        case PermissionError():
            return "it may not be read (permission denied)"
        case zipfile.BadZipFile() | zlib.error() | EOFError():
            return "a zip that is damaged or not complete"
        case NotImplementedError():
            return "packed in a way that is not known here; unpack it and import the folder"
        case MemoryError():
            return "too large for the memory there is"
        case RecursionError():
            return "nested too deeply"
        case OSError():
            return f"it cannot be read ({problem.strerror or type(problem).__name__})"
    return f"it cannot be read ({_said(problem)})"


def _said(problem: Exception) -> str:
    return _shown(f"{type(problem).__name__}: {problem}")


def _shown(name: str) -> str:
    """A name that comes from elsewhere, safe to print."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in clean(name[:1000]))
