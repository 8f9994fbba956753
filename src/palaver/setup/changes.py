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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from palaver.errors import PalaverError
from palaver.setup import files, jsonc, toml_text
from palaver.setup.client import Client, Default, Edit, Item, Machine, Member, Options, Server, is_own_hook
from palaver.setup.files import Record, Written
from palaver.setup.texts import MARK

URLS = ("url", "httpUrl", "serverUrl")


@dataclass
class Change:
    """One file before and after. None is a file that does not exist."""

    path: Path
    what: list[str]
    before: bytes | None
    after: bytes | None
    written: Written | None
    """What the record says afterwards. None: nothing of ours is left in the file."""

    is_secret: bool = False


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


class Unsafe(Exception):
    """An edit would change more than palaver's entries."""


def plan_setup(
    client: Client, machine: Machine, server: Server, options: Options, record: Record, *, force: bool = False
) -> Plan:
    """The changes that connect a client."""
    plan = Plan(client, client.is_installed(machine))
    if client.has_package(machine) and not force:
        plan.notes.append("The palaver plugin or extension is installed. It has the same server, hooks and skill.")
        return plan
    for path, edits in _by_path(client.edits(machine, server, options)):
        with _problems(plan, path):
            if change := _plan_file(plan, path, edits, record, server, force):
                plan.changes.append(change)
    return plan


def plan_removal(client: Client, machine: Machine, server: Server, record: Record, *, force: bool = False) -> Plan:
    """The changes that take palaver out of a client."""
    plan = Plan(client, client.is_installed(machine))
    edits = client.edits(machine, server, Options(keep_history=True))
    known = {edit.path for edit in edits}
    for name, written in record.files.items():  # files that an earlier setup wrote elsewhere
        if written.client == client.name and Path(name) not in known:
            edits.append(_edit_of_record(Path(name), written))
    for path, grouped in _by_path(edits):
        with _problems(plan, path):
            if change := _plan_removal(plan, path, grouped, record, force):
                plan.changes.append(change)
    if not (plan.changes or plan.kept or plan.problems):
        looked = ", ".join(str(path) for path in dict.fromkeys(edit.path for edit in edits))
        plan.notes.append(f"palaver was not found in {looked}.")
    return plan


def _edit_of_record(path: Path, written: Written) -> Edit:
    """What setup wrote into a file that it would not write today, such as one below another CODEX_HOME."""
    if path.suffix not in (".json", ".jsonc", ".toml"):
        return Edit(path, "earlier setup", text="")
    entries = [(tuple(one["path"]), one["value"]) for one in written.entries]
    kinds = [Member(at, value) if isinstance(value, dict) else Default(at, value) for at, value in entries]
    return Edit(path, "earlier setup", tuple(kinds))


def make(change: Change, record: Record) -> None:
    """Write one file, with a backup the first time, and record it."""
    name = str(change.path)
    known = record.files.get(name)
    if change.after is None:
        files.remove(change.path, known.folders if known else [])
    else:
        mode = files.PRIVATE if change.is_secret else None
        if change.written and not known and change.before is not None:
            backup = files.backup_path(change.path)
            files.write(backup, change.before, mode=stat.S_IMODE(change.path.stat().st_mode))
            change.written.backup = str(backup)
        if not change.written and known and known.backup and files.read(Path(known.backup)) == change.after:
            mode = stat.S_IMODE(Path(known.backup).stat().st_mode)
        try:
            folders = files.write(change.path, change.after, mode=mode, expected=change.before)
        except (OSError, PalaverError):
            if change.written and not known and change.written.backup:
                Path(change.written.backup).unlink(missing_ok=True)
            raise
        if change.written:
            change.written.folders = (known.folders if known else []) + folders
    if change.written:
        record.files[name] = change.written
    else:
        record.files.pop(name, None)
        if known and known.backup and files.read(Path(known.backup)) == change.after:
            Path(known.backup).unlink(missing_ok=True)
    record.save()


# Adding


def _plan_file(plan: Plan, path: Path, edits: list[Edit], record: Record, server: Server, force: bool) -> Change | None:
    before = files.read(path)
    known = record.files.get(str(path))
    written = copy.deepcopy(known) or Written(plan.client.name, "", existed=before is not None)
    what = [edit.what for edit in edits]
    if edits[0].text is not None:
        after = _whole_text(plan, edits[0], before, known, force)
    else:
        text = _decode(before)
        format = toml_text if edits[0].is_toml else jsonc
        entries = [entry for edit in edits for entry in edit.entries]
        changed, what = text, []
        for edit in edits:
            previous = changed
            for entry in edit.entries:
                changed = _add(plan, format, changed, entry, written, path, force)
            what += [edit.what] if changed != previous else []
        if _without(format.parse(text), entries) != _without(format.parse(changed), entries):
            raise Unsafe
        after = changed.encode() if changed != text else before
    if after == before:
        return None
    assert after is not None
    if known and known.after != files.digest(before or b""):
        # Another program changed the file. The backup is not what was there before, and the file is not ours alone.
        written.backup, written.existed = "", written.existed or before is not None
    written.after = files.digest(after)
    is_secret = bool(server.token) and any(server.token in json.dumps(e.value) for edit in edits for e in edit.entries)
    return Change(path, what, before, after, written, is_secret)


def _whole_text(plan: Plan, edit: Edit, before: bytes | None, known: Written | None, force: bool) -> bytes | None:
    assert edit.text is not None
    if before is None or before == edit.text.encode() or force or _is_as_written(before, known):
        return edit.text.encode()
    plan.kept.append(_not_ours(edit.path, known))
    return before


def _is_as_written(content: bytes, known: Written | None) -> bool:
    """Whether a file that is ours alone is as setup wrote it. Without a record, its mark says so."""
    return known.after == files.digest(content) if known else MARK.encode() in content


def _not_ours(path: Path, known: Written | None) -> str:
    return f"{path} was {'changed by a person' if known else 'not written by setup'}."


def _add(plan: Plan, format: ModuleType, text: str, entry: Any, written: Written, path: Path, force: bool) -> str:
    existing = format.find(text, entry.path)
    _remember_containers(format, text, entry, written)
    match entry:
        case Default():
            is_less = entry.is_least and type(existing) is int and 0 < existing < entry.value  # 0 switches a thing off
            if existing is not None and not is_less:
                return text
            previous = {} if existing is None else {"previous": existing}
            _remember(written, entry.path, entry.value, **previous)
        case Item():
            return _add_item(format, text, entry)
        case Member() if existing is None:
            _remember(written, entry.path, entry.value)
        case Member():
            return _update(plan, format, text, entry, existing, written, path, force)
    return str(format.put(text, entry.path, entry.value))


def _update(
    plan: Plan, format: ModuleType, text: str, entry: Member, existing: Any, written: Written, path: Path, force: bool
) -> str:
    """Change an entry that is there. Keys that a person added to it are kept."""
    wanted = entry.value
    if isinstance(existing, dict) and existing | wanted == existing:
        return text
    last = next((one for one in written.entries if tuple(one["path"]) == entry.path), None)
    is_ours = False
    if isinstance(existing, dict):
        if last is not None:
            is_ours = existing | last["value"] == existing
        is_ours = is_ours or _differs_only_in_ours(existing, wanted)
    if not is_ours and not force:
        shown = re.sub(r"plv_[\w-]+|(?<=Bearer )\S+", "***", json.dumps(existing, ensure_ascii=False))
        plan.kept.append(f"'{'.'.join(entry.path)}' in {path} was written by a person: {shown}")
        return text
    previous = last.get("previous") if last else existing
    _remember(written, entry.path, wanted, **({"previous": previous} if previous is not None else {}))
    if not is_ours:
        return str(format.put(text, entry.path, wanted))
    for key in last["value"] if last else ():
        if key not in wanted:
            text = format.delete(text, (*entry.path, key))
    for key, value in wanted.items():
        if existing.get(key) != value:
            text = format.put(text, (*entry.path, key), value)
    return text


def _add_item(format: ModuleType, text: str, item: Item) -> str:
    commands = list(own_commands(format.find(text, item.path)))
    if [command for _, command in commands] == list(commands_of(item.value)):
        return text
    alone = [place for place, _ in commands if len(place) == 1 or _is_alone(format.find(text, item.path), place)]
    if len(commands) == 1 and alone:
        return str(format.put(text, (*item.path, alone[0][0]), item.value))
    text = _take_out_items(format, text, item.path)
    return str(format.put(text, (*item.path, len(format.find(text, item.path) or [])), item.value))


def own_commands(items: Any) -> Iterator[tuple[tuple[int, ...], str]]:
    """The places of palaver's hooks in a list: (index,) or (index of the group, index in it)."""
    for number, one in enumerate(items if isinstance(items, list) else []):
        if isinstance(one, dict) and is_own_hook(one.get("command")):
            yield (number,), one["command"]
        inner = one.get("hooks") if isinstance(one, dict) else None
        for second, hook in enumerate(inner if isinstance(inner, list) else []):
            if isinstance(hook, dict) and is_own_hook(hook.get("command")):
                yield (number, second), hook["command"]


def commands_of(value: dict[str, Any]) -> Iterator[str]:
    for hook in value.get("hooks", [value]):
        yield hook["command"]


def _is_alone(items: Any, place: tuple[int, ...]) -> bool:
    return len(items[place[0]]["hooks"]) == 1


def _take_out_items(format: ModuleType, text: str, path: tuple[str, ...]) -> str:
    while found := list(own_commands(format.find(text, path))):
        place = found[-1][0]
        inner = (
            place[:1] if len(place) == 1 or _is_alone(format.find(text, path), place) else (place[0], "hooks", place[1])
        )
        text = format.delete(text, (*path, *inner))
    return text


def _differs_only_in_ours(existing: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether an entry differs only in the port of a local server, the path of palaver or its token."""
    for key, value in wanted.items():
        old = existing.get(key)
        if old == value:
            continue
        if key in URLS and isinstance(old, str):
            one, two = urlsplit(old), urlsplit(value)
            same = (one.scheme, one.path, one.query) == (two.scheme, two.path, two.query)
            if same and all(place.hostname in ("127.0.0.1", "localhost", "::1") for place in (one, two)):
                continue
        if key == "env_http_headers" and old is None:  # older versions did not write it
            continue
        if key == "command" and isinstance(old, str) and Path(old).name in ("palaver", "palaver-bus"):
            continue
        return False
    has_url = [bool(set(entry) & set(URLS)) for entry in (existing, wanted)]
    return has_url[0] == has_url[1]


def _remember(written: Written, path: tuple[str, ...], value: Any, **more: Any) -> None:
    written.entries = [one for one in written.entries if tuple(one["path"]) != path]
    written.entries.append({"path": list(path), "value": value, **more})


def _remember_containers(format: ModuleType, text: str, entry: Any, written: Written) -> None:
    deepest = len(entry.path) + (1 if isinstance(entry, Item) else 0)
    for depth in range(1, deepest):
        container = list(entry.path[:depth])
        if format.find(text, tuple(container)) is None and container not in written.containers:
            written.containers.append(container)


def _without(value: Any, entries: list[Any]) -> Any:
    """The value without our entries and the containers that are empty then."""
    value = copy.deepcopy(value)
    for entry in entries:
        places = [value]
        for key in entry.path[:-1]:
            places.append(places[-1].get(key, {}) if isinstance(places[-1], dict) else {})
        parent, last = places[-1], entry.path[-1]
        if isinstance(parent, dict) and last in parent:
            if isinstance(entry, Item) and isinstance(parent[last], list):
                parent[last] = [one for one in map(_without_hooks, parent[last]) if one]
            if not isinstance(entry, Item) or not parent[last]:
                del parent[last]
        for depth in range(len(entry.path) - 1, 0, -1):
            if places[depth] == {} and isinstance(places[depth - 1], dict):
                places[depth - 1].pop(entry.path[depth - 1], None)
    return value


def _without_hooks(one: Any) -> Any:
    if isinstance(one, dict) and is_own_hook(one.get("command")):
        return None
    if isinstance(one, dict) and isinstance(one.get("hooks"), list):
        hooks = [h for h in one["hooks"] if not (isinstance(h, dict) and is_own_hook(h.get("command")))]
        return {**one, "hooks": hooks} if hooks else None
    return one


# Taking out


def _plan_removal(plan: Plan, path: Path, edits: list[Edit], record: Record, force: bool) -> Change | None:
    before = files.read(path)
    known = record.files.get(str(path))
    what = [edit.what for edit in edits]
    if before is None:
        if known:
            plan.notes.append(f"{path} is not there any more.")
        return Change(path, [], None, None, None) if known else None
    if known and known.after == files.digest(before):
        if not known.existed:
            return Change(path, what, before, None, None)
        backup = files.read(Path(known.backup)) if known.backup else None
        if backup is not None:
            return Change(path, what, before, backup, None)
    if edits[0].text is not None:
        if force or _is_as_written(before, known):
            return Change(path, what, before, None, None)
        plan.kept.append(_not_ours(path, known))
        return None
    after = _take_out(plan, path, _decode(before), edits, known, force)
    if after is not None and after.encode() == before:
        if known:
            plan.notes.append(f"{path} has no entry of palaver any more.")
        return Change(path, [], before, before, None) if known else None
    return Change(path, what, before, after.encode() if after is not None else None, None)


def _take_out(plan: Plan, path: Path, text: str, edits: list[Edit], known: Written | None, force: bool) -> str | None:
    """The text without our entries. None if setup made the file and nothing else is in it."""
    format = toml_text if path.suffix == ".toml" else jsonc
    entries = [entry for edit in edits for entry in edit.entries]
    touched: list[tuple[str, ...]] = []
    before = format.parse(text)
    hooks = format.find(text, ("hooks",))
    for event in hooks if isinstance(hooks, dict) else ():  # also events that setup no longer uses
        cleaned = _take_out_items(format, text, ("hooks", event))
        if cleaned != text:
            touched.append(("hooks", event))
            entries.append(Item(("hooks", event), {}))
        text = cleaned
    recorded = {tuple(one["path"]): one for one in known.entries} if known else {}
    for entry in entries:
        existing = format.find(text, entry.path)
        if isinstance(entry, Item) or existing is None:
            continue
        last = recorded.get(entry.path)
        if isinstance(entry, Default) and (last is None or existing != entry.value):
            continue
        is_foreign = not isinstance(existing, dict) or not _differs_only_in_ours(existing, entry.value)
        if isinstance(entry, Member) and last is None and not force and is_foreign:
            plan.kept.append(f"'{'.'.join(entry.path)}' in {path} was written by a person.")
            continue
        touched.append(entry.path)
        if last and "previous" in last:
            text = format.put(text, entry.path, last["previous"])
        else:
            text = format.delete(text, entry.path)
    ours = [tuple(one) for one in known.containers] if known else touched + [path[:-1] for path in touched]
    for container in sorted(filter(None, ours), key=len, reverse=True):
        if format.find(text, container) in ({}, []):
            text = format.delete(text, container)
    left = format.parse(text)
    if _without(before, entries) != _without(left, entries):
        raise Unsafe
    if known and not known.existed and (not left or _without(left, entries) in ({}, {"version": 1})):
        return None
    return text


# Shared


def _by_path(edits: list[Edit]) -> Iterator[tuple[Path, list[Edit]]]:
    for path in dict.fromkeys(edit.path for edit in edits):
        yield path, [edit for edit in edits if edit.path == path]


def _decode(content: bytes | None) -> str:
    return (content or b"").decode("utf-8")


class _problems:
    """Turn errors about one file into sentences. The file is left alone, and the other files are still done."""

    def __init__(self, plan: Plan, path: Path) -> None:
        self.plan, self.path = plan, path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> bool:
        if (said := explain(problem, self.path)) is None:
            return False
        self.plan.problems.append(said)
        return True


def explain(problem: BaseException | None, path: Path) -> str | None:
    """A sentence about an error, or None if it is not an error with one file."""
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
        case PalaverError():
            return problem.message
    return None
