"""Plan and make the changes of a client's files: add palaver's entries, or take them out.

A plan reads files and changes nothing. A value that a person wrote is kept, unless it differs from ours only in the
port of a local server or in the path of `palaver`. After each edit the file is parsed again: everything but our entries
must be as before.
"""

from __future__ import annotations

import copy
import json
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from palaver.errors import PalaverError
from palaver.settings import LOOPBACK
from palaver.setup import files, jsonc, toml_text
from palaver.setup.clients import MARK, ClientProgram, FileEdit, Machine, Options, Server, SettingsEntry, is_own_hook
from palaver.setup.files import URLS, Record, Written
from palaver.setup.jsonc import Key


class Unsafe(Exception):
    """An edit would change more than palaver's entries."""


FILE_PROBLEMS = (jsonc.MalformedFile, UnicodeDecodeError, OSError, Unsafe, PalaverError)
"""Errors with one file. The file is left alone, and the other files are still done."""


@dataclass(frozen=True)
class SetupTask:
    """What this run of setup was asked to do."""

    machine: Machine
    server: Server
    record: Record
    options: Options
    is_removal: bool = False


@dataclass
class FileChange:
    """One file before and after. None is a file that does not exist."""

    path: Path
    what: list[str]
    before: bytes | None
    after: bytes | None
    written: Written | None = None
    """What the record says afterwards. None: nothing of ours is left in the file."""

    is_secret: bool = False

    @property
    def action(self) -> str:
        """create, change or delete. "": only the record changes."""
        if self.before == self.after:
            return ""
        return "delete" if self.after is None else "create" if self.before is None else "change"


@dataclass
class ClientPlan:
    """The changes for one client."""

    client: ClientProgram
    is_installed: bool = True
    changes: list[FileChange] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Entries that a person wrote. They stay as they are."""

    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass
class _File:
    """A file of a client as it is, and what the record says about it."""

    path: Path
    edits: list[FileEdit]
    known: Written | None

    def __post_init__(self) -> None:
        self.before = files.read(self.path)
        self.is_as_left = self.known is not None and self.known.after == files.digest(self.before or b"")
        self.entries = [entry for edit in self.edits for entry in edit.entries]
        self.what = [edit.what for edit in self.edits]
        self.format = format_of(self.path)

    @property
    def text(self) -> str:
        return (self.before or b"").decode("utf-8")

    @property
    def is_of_a_person(self) -> bool:
        """Whether it has no mark of the files that are ours alone."""
        return self.before is not None and MARK.encode() not in self.before


def format_of(path: Path) -> ModuleType:
    return toml_text if path.suffix == ".toml" else jsonc


def plan(client: ClientProgram, wanted: SetupTask) -> ClientPlan:
    """The changes that connect a client, or that take palaver out of it."""
    plan = ClientPlan(client, client.is_installed(wanted.machine))
    if wanted.is_removal:
        edits = client.edits(wanted.machine, wanted.server, Options(keep_history=True))
        edits += _edits_elsewhere(client, wanted.record, edits)
    elif not plan.is_installed:
        return plan
    elif client.starts_programs_only and wanted.server.is_remote:
        plan.notes.append("It only starts programs. Add a remote server in its own settings.")
        return plan
    elif client.has_package(wanted.machine):
        plan.notes.append("The palaver plugin or extension is installed. It has the same server, hooks and skill.")
        return plan
    else:
        edits = client.edits(wanted.machine, wanted.server, wanted.options)
    paths = list(dict.fromkeys(edit.path for edit in edits))
    for path in paths:
        try:
            file = _File(path, [edit for edit in edits if edit.path == path], wanted.record.files.get(str(path)))
            if wanted.is_removal:
                change = _without_palaver(plan, file)
            else:
                change = _with_palaver(plan, file, wanted.server.token)
        except FILE_PROBLEMS as problem:
            plan.problems.append(explain(problem, path))
        else:
            plan.changes += [change] if change else []
    if wanted.is_removal and not (plan.changes or plan.kept or plan.problems):
        plan.notes.append(f"palaver was not found in {', '.join(map(str, paths))}.")
    return plan


def _edits_elsewhere(client: ClientProgram, record: Record, edits: list[FileEdit]) -> list[FileEdit]:
    """The edits of files that setup wrote and would not write today, such as those below another CODEX_HOME."""
    made = []
    for path in (Path(name) for name, written in record.files.items() if written.client == client.name):
        if any(edit.path == path for edit in edits):
            continue
        if path.suffix not in (".json", ".jsonc", ".toml"):
            made.append(FileEdit(path, "earlier setup", text=""))
            continue
        alike = [edit for edit in edits if edit.text is None and format_of(edit.path) is format_of(path)]
        made.append(FileEdit(path, "earlier setup", tuple(entry for edit in alike for entry in edit.entries)))
    return made


def make(change: FileChange, record: Record) -> None:
    """Write one file, with a backup the first time, and record it."""
    name, written, backup = str(change.path), change.written, files.backup_path(change.path)
    known = record.files.get(name)
    is_restored = not written and change.after is not None and files.read(backup) == change.after
    if change.after is None:
        files.remove(change.path, known.folders if known else [])
    else:
        if written and not known:
            backup.unlink(missing_ok=True)
            if change.before is not None:
                files.write(backup, change.before, mode=stat.S_IMODE(change.path.stat().st_mode))
        mode = stat.S_IMODE(backup.stat().st_mode) if is_restored else files.PRIVATE if change.is_secret else None
        try:
            folders = files.write(change.path, change.after, mode=mode, expected=change.before)
        except (OSError, PalaverError):
            if written and not known:
                backup.unlink(missing_ok=True)
            raise
        if written:
            written.folders = (known.folders if known else []) + folders
            record.files[name] = written
        elif is_restored:
            backup.unlink()
    if not written:
        record.files.pop(name, None)
    record.save()


# Adding


def _with_palaver(plan: ClientPlan, file: _File, token: str) -> FileChange | None:
    before, what = file.before, file.what
    written = copy.deepcopy(file.known) or Written(plan.client.name, "")
    if (whole := file.edits[0].text) is not None:
        after = whole.encode()
        if file.is_of_a_person:
            plan.kept.append(f"{file.path} was not written by setup.")
            return None
    else:
        text, what = file.text, []
        for edit in file.edits:
            previous = text
            for entry in edit.entries:
                text = _add(plan, file, text, entry, written)
            what += [edit.what] if text != previous else []
        _prove(file, text)
        after = text.encode()
    if after == (before or b""):
        return None
    # If another program changed the file, its backup is not what removal can restore.
    is_shared = file.known is not None and not file.is_as_left and whole is None
    written.after = "" if is_shared else files.digest(after)
    is_secret = bool(token) and any(token in json.dumps(entry.value) for entry in file.entries)
    return FileChange(file.path, what, before, after, written, is_secret)


def _add(plan: ClientPlan, file: _File, text: str, entry: SettingsEntry, written: Written) -> str:
    existing = file.format.find(text, entry.path)
    match entry.kind:
        case "hook":
            return _add_hook(file.format, text, entry)
        case "server" if existing is None:
            written.server = entry.value
        case "server":
            return _update(plan, file, text, entry, written)
        case "minimum" if type(existing) is int and 0 < existing < entry.value:
            pass  # 0 switches a thing off
        case _ if existing is not None:
            return text
    return str(file.format.put(text, entry.path, entry.value))


def _update(plan: ClientPlan, file: _File, text: str, entry: SettingsEntry, written: Written) -> str:
    """Change the entry of a server that is there. Keys that a person added to it are kept."""
    existing, new, last = file.format.find(text, entry.path), entry.value, written.server
    if isinstance(existing, dict) and existing | new == existing:
        return text
    is_as_left = isinstance(existing, dict) and bool(last) and existing | last == existing
    if not (is_as_left or _differs_only_in_ours(existing, new)):
        shown = mask(json.dumps(existing, ensure_ascii=False))
        plan.kept.append(f"'{'.'.join(entry.path)}' in {file.path} was written by a person: {shown}")
        return text
    written.server = new
    for key in last:
        if key not in new:
            text = file.format.delete(text, (*entry.path, key))
    for key, value in new.items():
        if existing.get(key) != value:
            text = file.format.put(text, (*entry.path, key), value)
    return text


def _differs_only_in_ours(existing: Any, new: dict[str, Any]) -> bool:
    """Whether an entry differs only in the port of a local server, the path of palaver or its token."""
    if not isinstance(existing, dict):
        return False
    for key, value in new.items():
        old = existing.get(key)
        if old == value:
            continue
        if key in URLS and isinstance(old, str):
            one, two = urlsplit(old), urlsplit(value)
            same = (one.scheme, one.path, one.query) == (two.scheme, two.path, two.query)
            if same and all(place.hostname in LOOPBACK for place in (one, two)):
                continue
        if key == "env_http_headers" and old is None:  # older versions did not write it
            continue
        if key == "command" and isinstance(old, str) and Path(old).name in ("palaver", "palaver-bus"):
            continue
        return False
    has_url = [bool(set(entry) & set(URLS)) for entry in (existing, new)]
    return has_url[0] == has_url[1]


# Hooks


def own_hooks(items: Any) -> list[tuple[tuple[Key, ...], str]]:
    """The places and commands of palaver's hooks in a list. A hook that is alone in its group has the group's place."""
    found: list[tuple[tuple[Key, ...], str]] = []
    for number, one in enumerate(items if isinstance(items, list) else []):
        if is_own_hook(one):
            found.append(((number,), one["command"]))
        group = one.get("hooks") if isinstance(one, dict) else None
        group = group if isinstance(group, list) else []
        for second, hook in enumerate(group):
            if is_own_hook(hook):
                found.append(((number,) if len(group) == 1 else (number, "hooks", second), hook["command"]))
    return found


def _add_hook(format: ModuleType, text: str, entry: SettingsEntry) -> str:
    found = own_hooks(format.find(text, entry.path))
    if entry.value is None:
        cleaned = _take_out_hooks(format, text, entry.path)
        is_empty = cleaned != text and not format.find(cleaned, entry.path)
        return str(format.delete(cleaned, entry.path)) if is_empty else cleaned
    if [command for _, command in found] == [command for _, command in own_hooks([entry.value])]:
        return text
    if len(found) == 1 and len(found[0][0]) == 1:
        return str(format.put(text, (*entry.path, *found[0][0]), entry.value))
    text = _take_out_hooks(format, text, entry.path)
    return str(format.put(text, (*entry.path, len(format.find(text, entry.path) or [])), entry.value))


def _take_out_hooks(format: ModuleType, text: str, path: Sequence[str]) -> str:
    while found := own_hooks(format.find(text, path)):
        text = format.delete(text, (*path, *found[-1][0]))
    return text


# Taking out


def _without_palaver(plan: ClientPlan, file: _File) -> FileChange | None:
    path, before, known = file.path, file.before, file.known
    if before is None:
        if known:
            plan.notes.append(f"{path} is not there any more.")
        return FileChange(path, [], None, None) if known else None
    if file.is_as_left and (backup := files.read(files.backup_path(path))) is not None:
        return FileChange(path, file.what, before, backup)
    if file.edits[0].text is not None:
        if not file.is_of_a_person:
            return FileChange(path, file.what, before, None)
        plan.kept.append(f"{path} was not written by setup.")
        return None
    after = _take_out(plan, file)
    if after is not None and after.encode() == before:
        if known:
            plan.notes.append(f"{path} has no entry of palaver any more.")
        return FileChange(path, [], before, before) if known else None
    return FileChange(path, file.what, before, None if after is None else after.encode())


def _take_out(plan: ClientPlan, file: _File) -> str | None:
    """The text without our entries. None if setup made the file and nothing else is in it.

    The backup has the values that were there before ours, and the objects and lists that stay even if they are empty.
    """
    format, text, known = file.format, file.text, file.known
    backup = files.read(files.backup_path(file.path)) if known else None
    original = format.parse((backup or b"").decode("utf-8"))
    touched: list[tuple[str, ...]] = []
    hooks = format.find(text, ("hooks",))
    for event in hooks if isinstance(hooks, dict) else ():  # also events that setup no longer uses
        cleaned = _take_out_hooks(format, text, ("hooks", event))
        if cleaned != text:
            touched.append(("hooks", event))
            file.entries.append(SettingsEntry("hook", ("hooks", event), {}))
        text = cleaned
    for entry in file.entries:
        existing, earlier = format.find(text, entry.path), jsonc.at(original, entry.path)
        if entry.kind == "hook" or existing is None:
            continue
        is_ours = known is not None and existing != earlier
        if entry.kind != "server" and not (is_ours and existing == entry.value):
            continue
        if not (is_ours or _differs_only_in_ours(existing, entry.value)):
            plan.kept.append(f"'{'.'.join(entry.path)}' in {file.path} was written by a person.")
            continue
        touched.append(entry.path)
        if is_ours and earlier is not None:
            text = format.put(text, entry.path, earlier)
        else:
            text = format.delete(text, entry.path)
    for path in touched:
        for container in (path, path[:-1]):
            if container and jsonc.at(original, container) is None and format.find(text, container) in ({}, []):
                text = format.delete(text, container)
    _prove(file, text)
    if known and backup is None and _bare(format.parse(text), file.entries) in ({}, {"version": 1}):
        return None
    return text


# Shared


def mask(text: str, token: str = "") -> str:
    """The text without tokens."""
    text = text.replace(token, "***") if token else text
    return re.sub(r"plv_[\w-]+|(?<=Bearer )[^\s\"']+", "***", text)


def _prove(file: _File, text: str) -> None:
    """Everything but our entries must have the same value as before."""
    before, after = (_bare(file.format.parse(one), file.entries) for one in (file.text, text))
    if before != after:
        raise Unsafe


def _bare(value: Any, entries: list[SettingsEntry]) -> Any:
    """The value without our entries and the containers that are empty then."""
    value = copy.deepcopy(value)
    for entry in entries:
        hooks, parent = jsonc.at(value, entry.path), jsonc.at(value, entry.path[:-1])
        if entry.kind != "hook" and isinstance(parent, dict):
            parent.pop(entry.path[-1], None)
        while entry.kind == "hook" and (found := own_hooks(hooks)):
            *place, last = found[-1][0]
            del jsonc.at(hooks, place)[last]
        for depth in range(len(entry.path), 0, -1):
            if jsonc.at(value, entry.path[:depth]) in ({}, []):
                del jsonc.at(value, entry.path[: depth - 1])[entry.path[depth - 1]]
    return value


def explain(problem: BaseException, path: Path) -> str:
    """A sentence about one of `FILE_PROBLEMS`."""
    match problem:
        case jsonc.MalformedFile():
            return f"{path} cannot be read: {problem}. It was left alone. Correct it, then run setup again."
        case UnicodeDecodeError():
            return f"{path} is not UTF-8. It was left alone."
        case Unsafe():
            return f"{path} has a form that setup cannot edit safely. It was left alone. Edit it by hand."
        case PermissionError():
            folder = "" if os.path.exists(path) else f" or {path.parent}"
            return f"You may not write {path}{folder}. Change its owner or mode, then run setup again."
        case OSError():
            return f"{path} cannot be read or written: {problem.strerror or problem}."
    return str(problem)
