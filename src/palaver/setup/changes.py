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
from palaver.setup.clients import Client, Edit, Entry, Machine, Options, Server, is_own_hook
from palaver.setup.files import Record, Written
from palaver.setup.jsonc import Key
from palaver.setup.texts import MARK

URLS = ("url", "httpUrl", "serverUrl")


class Unsafe(Exception):
    """An edit would change more than palaver's entries."""


FILE_PROBLEMS = (jsonc.Malformed, UnicodeDecodeError, OSError, Unsafe, PalaverError)
"""Errors with one file. The file is left alone, and the other files are still done."""


@dataclass(frozen=True)
class Wanted:
    """What this run of setup was asked to do."""

    machine: Machine
    server: Server
    record: Record
    options: Options
    is_removal: bool = False
    force: bool = False


@dataclass
class Change:
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
class Plan:
    """The changes for one client."""

    client: Client
    is_installed: bool = True
    changes: list[Change] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Entries that a person wrote. They stay as they are without --force."""

    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass
class _File:
    """A file of a client as it is, and what the record says about it."""

    path: Path
    edits: list[Edit]
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
    def is_ours_alone(self) -> bool:
        """Whether a whole file is as setup wrote it. Without a record, its mark says so."""
        return self.is_as_left if self.known else MARK.encode() in (self.before or b"")

    @property
    def says_not_ours(self) -> str:
        return f"{self.path} was {'changed by a person' if self.known else 'not written by setup'}."


def format_of(path: Path) -> ModuleType:
    return toml_text if path.suffix == ".toml" else jsonc


def plan(client: Client, wanted: Wanted) -> Plan:
    """The changes that connect a client, or that take palaver out of it."""
    plan = Plan(client, client.is_installed(wanted.machine))
    if wanted.is_removal:
        edits = client.edits(wanted.machine, wanted.server, Options(keep_history=True))
        edits += _edits_elsewhere(client, wanted.record, edits)
    elif not plan.is_installed:
        return plan
    elif client.starts_programs_only and wanted.server.is_remote:
        plan.notes.append("It only starts programs. Add a remote server in its own settings.")
        return plan
    elif client.has_package(wanted.machine) and not wanted.force:
        plan.notes.append("The palaver plugin or extension is installed. It has the same server, hooks and skill.")
        return plan
    else:
        edits = client.edits(wanted.machine, wanted.server, wanted.options)
    paths = list(dict.fromkeys(edit.path for edit in edits))
    for path in paths:
        try:
            file = _File(path, [edit for edit in edits if edit.path == path], wanted.record.files.get(str(path)))
            change = (_without_palaver if wanted.is_removal else _with_palaver)(plan, file, wanted)
        except FILE_PROBLEMS as problem:
            plan.problems.append(explain(problem, path))
        else:
            plan.changes += [change] if change else []
    if wanted.is_removal and not (plan.changes or plan.kept or plan.problems):
        plan.notes.append(f"palaver was not found in {', '.join(map(str, paths))}.")
    return plan


def _edits_elsewhere(client: Client, record: Record, edits: list[Edit]) -> list[Edit]:
    """The edits of files that setup wrote and would not write today, such as those below another CODEX_HOME."""
    made = []
    for path in (Path(name) for name, written in record.files.items() if written.client == client.name):
        if any(edit.path == path for edit in edits):
            continue
        if path.suffix not in (".json", ".jsonc", ".toml"):
            made.append(Edit(path, "earlier setup", text=""))
            continue
        alike = [edit for edit in edits if edit.text is None and format_of(edit.path) is format_of(path)]
        made.append(Edit(path, "earlier setup", tuple(entry for edit in alike for entry in edit.entries)))
    return made


def make(change: Change, record: Record) -> None:
    """Write one file, with a backup the first time, and record it."""
    name, written = str(change.path), change.written
    known = record.files.get(name)
    backup = Path(known.backup) if known and known.backup else None
    is_restored = not written and backup is not None and files.read(backup) == change.after
    if change.after is None:
        files.remove(change.path, known.folders if known else [])
    else:
        mode = files.PRIVATE if change.is_secret else None
        if backup and is_restored:
            mode = stat.S_IMODE(backup.stat().st_mode)
        if written and not known and change.before is not None:
            backup = files.backup_path(change.path)
            files.write(backup, change.before, mode=stat.S_IMODE(change.path.stat().st_mode))
            written.backup = str(backup)
        try:
            folders = files.write(change.path, change.after, mode=mode, expected=change.before)
        except (OSError, PalaverError):
            if backup and not known:
                backup.unlink(missing_ok=True)
            raise
        if written:
            written.folders = (known.folders if known else []) + folders
    if written:
        record.files[name] = written
    else:
        record.files.pop(name, None)
        if backup and is_restored:
            backup.unlink(missing_ok=True)
    record.save()


# Adding


def _with_palaver(plan: Plan, file: _File, wanted: Wanted) -> Change | None:
    before, what = file.before, file.what
    written = copy.deepcopy(file.known) or Written(plan.client.name, "", existed=before is not None)
    if (whole := file.edits[0].text) is not None:
        after = whole.encode()
        if not (before in (None, after) or wanted.force or file.is_ours_alone):
            plan.kept.append(file.says_not_ours)
            return None
    else:
        text, what = file.text, []
        for edit in file.edits:
            previous = text
            for entry in edit.entries:
                text = _add(plan, file, text, entry, written, wanted.force)
            what += [edit.what] if text != previous else []
        _prove(file, text)
        after = text.encode()
    if after == (before or b""):
        return None
    # If another program changed the file, its backup is not what removal can restore.
    is_shared = file.known is not None and not file.is_as_left and whole is None
    written.after = "" if is_shared else files.digest(after)
    token = wanted.server.token
    is_secret = bool(token) and any(token in json.dumps(entry.value) for entry in file.entries)
    return Change(file.path, what, before, after, written, is_secret)


def _add(plan: Plan, file: _File, text: str, entry: Entry, written: Written, force: bool) -> str:
    existing = file.format.find(text, entry.path)
    match entry.kind:
        case "hook":
            return _add_hook(file.format, text, entry)
        case "server" if existing is None:
            written.server = entry.value
        case "server":
            return _update(plan, file, text, entry, written, force)
        case "minimum" if type(existing) is int and 0 < existing < entry.value:
            pass  # 0 switches a thing off
        case _ if existing is not None:
            return text
    return str(file.format.put(text, entry.path, entry.value))


def _update(plan: Plan, file: _File, text: str, entry: Entry, written: Written, force: bool) -> str:
    """Change the entry of a server that is there. Keys that a person added to it are kept."""
    existing, new, last = file.format.find(text, entry.path), entry.value, written.server
    if isinstance(existing, dict) and existing | new == existing:
        return text
    is_ours = isinstance(existing, dict) and (
        bool(last and existing | last == existing) or _differs_only_in_ours(existing, new)
    )
    if not (is_ours or force):
        shown = re.sub(r"plv_[\w-]+|(?<=Bearer )\S+", "***", json.dumps(existing, ensure_ascii=False))
        plan.kept.append(f"'{'.'.join(entry.path)}' in {file.path} was written by a person: {shown}")
        return text
    written.server = new
    if not is_ours:
        return str(file.format.put(text, entry.path, new))
    for key in last:
        if key not in new:
            text = file.format.delete(text, (*entry.path, key))
    for key, value in new.items():
        if existing.get(key) != value:
            text = file.format.put(text, (*entry.path, key), value)
    return text


def _differs_only_in_ours(existing: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether an entry differs only in the port of a local server, the path of palaver or its token."""
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


def _add_hook(format: ModuleType, text: str, entry: Entry) -> str:
    found = own_hooks(format.find(text, entry.path))
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


def _without_palaver(plan: Plan, file: _File, wanted: Wanted) -> Change | None:
    path, before, known = file.path, file.before, file.known
    if before is None:
        if known:
            plan.notes.append(f"{path} is not there any more.")
        return Change(path, [], None, None) if known else None
    if known and file.is_as_left:
        backup = files.read(Path(known.backup)) if known.existed and known.backup else None
        if backup is not None or not known.existed:
            return Change(path, file.what, before, backup)
    if file.edits[0].text is not None:
        if wanted.force or file.is_ours_alone:
            return Change(path, file.what, before, None)
        plan.kept.append(file.says_not_ours)
        return None
    after = _take_out(plan, file, wanted.force)
    if after is not None and after.encode() == before:
        if known:
            plan.notes.append(f"{path} has no entry of palaver any more.")
        return Change(path, [], before, before) if known else None
    return Change(path, file.what, before, None if after is None else after.encode())


def _take_out(plan: Plan, file: _File, force: bool) -> str | None:
    """The text without our entries. None if setup made the file and nothing else is in it.

    The backup has the values that were there before ours, and the objects and lists that stay even if they are empty.
    """
    format, text, known = file.format, file.text, file.known
    backup = files.read(files.backup_path(file.path)) if known and known.existed else None
    original = format.parse((backup or b"").decode("utf-8"))
    touched: list[tuple[str, ...]] = []
    hooks = format.find(text, ("hooks",))
    for event in hooks if isinstance(hooks, dict) else ():  # also events that setup no longer uses
        cleaned = _take_out_hooks(format, text, ("hooks", event))
        if cleaned != text:
            touched.append(("hooks", event))
            file.entries.append(Entry("hook", ("hooks", event), {}))
        text = cleaned
    for entry in file.entries:
        existing, earlier = format.find(text, entry.path), jsonc.at(original, entry.path)
        if entry.kind == "hook" or existing is None:
            continue
        is_ours = known is not None and existing != earlier
        if entry.kind != "server" and not (is_ours and existing == entry.value):
            continue
        is_alike = isinstance(existing, dict) and _differs_only_in_ours(existing, entry.value)
        if not (is_ours or is_alike or force):
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
    if known and not known.existed and _bare(format.parse(text), file.entries) in ({}, {"version": 1}):
        return None
    return text


# Shared


def _prove(file: _File, text: str) -> None:
    """Everything but our entries must have the same value as before."""
    before, after = (_bare(file.format.parse(one), file.entries) for one in (file.text, text))
    if before != after:
        raise Unsafe


def _bare(value: Any, entries: list[Entry]) -> Any:
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
        case jsonc.Malformed():
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
