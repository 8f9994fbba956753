"""Makes what a disk may hold after a power failure, from the record of a server (see disk_recorder.py).

What was synced is there. Of everything else a random part is there: whole writes, some sectors of a write, or nothing,
in any order. A new file can have its size without its content. A file name that was created, changed or deleted without
a sync of its folder may be there or not. Only a rename is whole: a file has its old name or its new one.
"""

from __future__ import annotations

import os
import pickle
import random
import shutil
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

SECTOR = 512
Mode = Literal["nothing", "everything", "some", "first"]
MODES: tuple[Mode, ...] = ("nothing", "everything", "some", "some", "some", "first")
"""What survives of unsynced writes: none, all, some, or the first ones."""


@dataclass
class Disk:
    """The content of files and the names in folders, by id."""

    root: str
    files: dict[str, bytes] = field(default_factory=dict)
    folders: dict[str, dict[str, str]] = field(default_factory=dict)


def look_at(home: Path, used_before: Counter[int] | None = None) -> Disk:
    """Everything that is in a folder now."""
    used_before = used_before or Counter()

    def id_of(about: os.stat_result) -> str:
        return f"{about.st_ino}.{used_before[about.st_ino]}"

    disk = Disk(id_of(home.stat()))
    for place, _, _ in os.walk(home):
        names = disk.folders.setdefault(id_of(os.stat(place)), {})
        for entry in os.scandir(place):
            names[entry.name] = id_of(entry.stat(follow_symlinks=False))
            if entry.is_file(follow_symlinks=False):
                disk.files[names[entry.name]] = Path(entry.path).read_bytes()
    return disk


def after_power_failure(before: Disk, home: Path, record: Path, into: Path, mode: Mode, dice: random.Random) -> None:
    """Write a possible state of the disk into a new folder. `before` is the disk when the server started."""
    entries = read_record(record)
    now = look_at(home, Counter(entry[1] for entry in entries if entry[0] == "gone"))
    synced, names = dict(before.files), dict(before.folders)
    unsynced: dict[str, list[Any]] = defaultdict(list)
    for kind, id, *rest in entries:
        match kind:
            case "write" | "truncate":
                unsynced[id].append(rest)
            case "sync":
                synced[id] = _written(synced.get(id, b""), unsynced[id], "everything", dice)
                unsynced[id] = []
            case "file":
                synced[id] = rest[0]
            case "folder":
                names[id] = rest[0]

    def content(id: str) -> bytes:
        if id in unsynced:
            return _written(synced.get(id, b""), unsynced[id], mode, dice)
        return _changed(synced.get(id, b""), now.files.get(id, synced.get(id, b"")), mode, dice)

    def write(id: str, place: Path) -> None:
        if id in names or id in now.folders:
            place.mkdir(mode=0o700)
            for name, inner in _surviving(names.get(id, {}), now.folders.get(id, {}), mode, dice).items():
                write(inner, place / name)
        elif id in synced or id in now.files or id in unsynced:
            place.write_bytes(content(id))
            place.chmod(0o600)

    write(before.root, into)
    for log in home.glob("server-*.log"):  # written by the test, not by the server
        shutil.copyfile(log, into / log.name)


def read_record(record: Path) -> list[tuple[Any, ...]]:
    entries = []
    with record.open("rb") as file:
        while True:
            try:
                entries.append(pickle.load(file))  # noqa: S301
            except (EOFError, pickle.UnpicklingError):  # the last entry may be incomplete
                return entries


def _written(old: bytes, steps: list[Any], mode: Mode, dice: random.Random) -> bytes:
    """The content after some of these writes."""
    data = bytearray(old)
    last = dice.randint(0, len(steps))
    for number, step in enumerate(steps):
        how: Mode = mode
        if mode == "first":
            how = "everything" if number < last else "some" if number == last else "nothing"
        elif mode == "some":
            how = dice.choice(("nothing", "everything", "some"))
        match step:
            case [size] if how != "nothing":
                data = data[:size].ljust(size, b"\0")
            case [offset, written]:
                for begin in range(0, len(written), SECTOR):
                    if how == "everything" or (how == "some" and dice.random() < 0.5):
                        _put(data, offset + begin, written[begin : begin + SECTOR])
    return bytes(data)


def _put(data: bytearray, offset: int, part: bytes) -> None:
    if len(data) < offset:
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(part)] = part


def _changed(old: bytes, new: bytes, mode: Mode, dice: random.Random) -> bytes:
    """Content between what was synced and what was written last."""
    if mode == "everything" or old == new:
        return new
    if mode == "nothing":
        return old
    size = dice.choice((len(old), len(new), dice.randint(*sorted((len(old), len(new))))))
    both = (old.ljust(size, b"\0"), new.ljust(size, b"\0"))
    begins = range(0, size, SECTOR)
    return b"".join(dice.choice(both)[begin : begin + SECTOR] for begin in begins)[:size]


def _surviving(old: dict[str, str], new: dict[str, str], mode: Mode, dice: random.Random) -> dict[str, str]:
    """The names in a folder. All names of one file change together: a rename is whole."""
    is_new: dict[str, bool] = {}
    found = {}
    for name in sorted(old.keys() | new.keys()):
        id = new.get(name) or old[name]
        if id not in is_new:
            is_new[id] = mode == "everything" or (mode in ("some", "first") and dice.random() < 0.5)
        there = new.get(name) if is_new[id] else old.get(name)
        if there:
            found[name] = there
    return found
