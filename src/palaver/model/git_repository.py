"""What a git repository tells about itself: the address of its origin, and the hash of its first commit.

No git is run: a repository may be a stranger's, and its configuration can name programs to run. Only files are read.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import zlib
from bisect import bisect_left
from pathlib import Path

MOST_COMMITS = 20_000
"""A longer history is not followed to its first commit."""
_MOST_BYTES = 1_000_000
_MOST_OF_A_COMMIT, _USUAL_COMMIT = 65_536, 2_048
_HASH = re.compile(r"[0-9a-f]{40}")
_SECTION = re.compile(r'\[\s*remote\s+"origin"\s*\]', re.IGNORECASE)
_URL = re.compile(r"\s*url\s*=\s*(.+)", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_DEFAULT_PORTS = {"ssh": "22", "https": "443", "http": "80", "git": "9418"}
_LONGEST_BRANCH = 200
_MOST_KNOWN = 1_000
_known: dict[Path, tuple[str, str]] = {}
"""The last HEAD of a git folder, and its first commit."""
_COMMIT, _OFFSET_DELTA, _HASH_DELTA = 1, 6, 7


def origin_of(folder: Path) -> str | None:
    """The url of the remote 'origin' in a git folder, as it is written there."""
    is_in_section = False
    for line in _read(folder / "config").splitlines():
        text = line.strip()
        if text.startswith("["):
            is_in_section = _SECTION.match(text) is not None
            text = text.partition("]")[2]
        if is_in_section and (found := _URL.fullmatch(text)):
            return found[1].strip().strip('"') or None
    return None


def normalised(url: str) -> str | None:
    """An address without what differs between machines: scheme, user, password, default port, `.git`. Lower case.

    None for a path on this machine.
    """
    if _SCHEME.match(url):
        scheme, _, rest = url.partition("://")
        if scheme.lower() == "file":
            return None
        host, _, path = rest.partition("/")
    else:
        host, colon, path = url.partition(":")
        scheme = "ssh"
        if not colon or "/" in host or len(host) == 1:  # a path, or a drive of Windows
            return None
    host = host.rpartition("@")[2].lower()
    host = host.removesuffix(":" + _DEFAULT_PORTS.get(scheme.lower(), ""))
    path = path.strip("/").lower()
    path = path.removesuffix(".git").rstrip("/")
    return f"{host}/{path}" if host and path else None


def local_path(url: str, folder: Path) -> Path | None:
    """The folder that an origin on this machine names. A relative one starts at the work tree."""
    path = url.partition("://")[2] if _SCHEME.match(url) else url
    return Path(os.path.normpath(folder / os.path.expanduser(path))) if path else None


def first_commit(folder: Path) -> str | None:
    """The hash of the first commit of a git folder: the first parents of HEAD are followed to the end.

    A later call follows them only to the HEAD of an earlier one.
    """
    if (folder / "shallow").exists():
        return None
    head = _head(folder)
    if head is None:
        return None
    first = _first_before(_Objects(folder), head, _known.get(folder))
    if first:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[folder] = head, first
    return first


def branch_of(worktree: Path) -> str:
    """The branch that a worktree is on, or the beginning of its commit; '' if it is unknown."""
    sign = worktree / ".git"
    pointer = "" if sign.is_dir() else _read(sign).partition("gitdir:")[2].strip()
    head = _read((worktree / pointer if pointer else sign) / "HEAD").strip()
    name = head.partition("\n")[0].removeprefix("ref:").strip().removeprefix("refs/heads/")
    return name[:_LONGEST_BRANCH] if head.startswith("ref:") else head[:10]


def _first_before(objects: _Objects, head: str, known: tuple[str, str] | None) -> str | None:
    at: str | None = head
    for _ in range(MOST_COMMITS):
        if known and at == known[0]:
            return known[1]
        commit = objects.commit(at) if at else None
        if commit is None:
            return None
        lines = commit.partition(b"\n\n")[0].splitlines()
        parent = next((line[7:].decode("ascii", "replace") for line in lines if line.startswith(b"parent ")), None)
        if parent is None:
            return at
        at = parent if _HASH.fullmatch(parent) else None
    return None


def _head(folder: Path) -> str | None:
    text = _read(folder / "HEAD").strip()
    for _ in range(5):
        if not text.startswith("ref:"):
            break
        name = text.removeprefix("ref:").strip()
        if not name.startswith("refs/") or ".." in name:
            return None
        text = _read(folder / name).strip() or _packed_ref(folder, name)
    return text if _HASH.fullmatch(text) else None


def _packed_ref(folder: Path, name: str) -> str:
    for line in _read(folder / "packed-refs").splitlines():
        at, _, ref = line.partition(" ")
        if ref.strip() == name:
            return at
    return ""


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


class _Objects:
    """The commits of a repository: each in a file of its own, or in packs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "objects"
        self._packs: list[tuple[mmap.mmap, mmap.mmap]] | None = None

    def commit(self, name: str) -> bytes | None:
        try:
            return self._loose(name) or self._packed(name)
        except (OSError, ValueError, IndexError, zlib.error, struct.error):
            return None

    def _loose(self, name: str) -> bytes | None:
        path = self._folder / name[:2] / name[2:]
        if not path.is_file():
            return None
        with path.open("rb") as file:
            text = zlib.decompressobj().decompress(file.read(_MOST_OF_A_COMMIT), _MOST_OF_A_COMMIT)
        kind, _, content = text.partition(b"\0")
        return content if kind.startswith(b"commit ") else None

    def _packed(self, name: str) -> bytes | None:
        if self._packs is None:
            paths = sorted(self._folder.glob("pack/*.idx"))
            self._packs = [(_mapped(path.with_suffix(".pack")), _mapped(path)) for path in paths]
        for pack, index in self._packs:
            offset = _offset(index, bytes.fromhex(name))
            if offset is not None:
                return self._entry(pack, offset)
        return None

    def _entry(self, pack: mmap.mmap, offset: int, depth: int = 0) -> bytes | None:
        """The commit at an offset of a pack. It may be stored as a difference to another one."""
        data = pack[offset : offset + _USUAL_COMMIT]
        kind, at = (data[0] >> 4) & 7, 1
        while data[at - 1] & 0x80:
            at += 1
        base: bytes | None = None
        if kind in (_OFFSET_DELTA, _HASH_DELTA):
            if depth > 50:
                return None
            if kind == _HASH_DELTA:
                base, at = self.commit(data[at : at + 20].hex()), at + 20
            else:
                back, at = data[at] & 0x7F, at + 1
                while data[at - 1] & 0x80:
                    back, at = ((back + 1) << 7) | (data[at] & 0x7F), at + 1
                base = self._entry(pack, offset - back, depth + 1)
            if base is None:
                return None
        elif kind != _COMMIT:
            return None
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(data[at:], _MOST_OF_A_COMMIT)
        if not unpacking.eof:
            content += unpacking.decompress(pack[offset + len(data) : offset + _MOST_OF_A_COMMIT], _MOST_OF_A_COMMIT)
        return content if base is None else _patched(base, content)


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _offset(index: mmap.mmap, name: bytes) -> int | None:
    """Where a pack has an object, from its index (version 2)."""
    if index[:8] != b"\xfftOc\0\0\0\x02":
        return None
    fanout = struct.unpack(">256I", index[8 : 8 + 1024])
    low, high, count = fanout[name[0] - 1] if name[0] else 0, fanout[name[0]], fanout[255]
    names = 8 + 1024
    number = bisect_left(range(high), name, low, high, key=lambda n: index[names + 20 * n : names + 20 * n + 20])
    if number == high or index[names + 20 * number : names + 20 * number + 20] != name:
        return None
    offsets = names + 24 * count
    (offset,) = struct.unpack(">I", index[offsets + 4 * number : offsets + 4 * number + 4])
    if not offset & 0x80000000:
        return int(offset)
    at = offsets + 4 * count + 8 * (offset & 0x7FFFFFFF)
    return int(struct.unpack(">Q", index[at : at + 8])[0])


def _patched(base: bytes, delta: bytes) -> bytes:
    """The text that a difference makes of its base."""
    at = 0
    for _ in range(2):  # the sizes of both texts
        while delta[at] & 0x80:
            at += 1
        at += 1
    made = bytearray()
    while at < len(delta):
        code, at = delta[at], at + 1
        if not code & 0x80:
            made += delta[at : at + code]
            at += code
            continue
        numbers = []
        for bits in (code & 0x0F, (code >> 4) & 0x07):
            value = 0
            for shift in range(4):
                if bits >> shift & 1:
                    value, at = value | delta[at] << 8 * shift, at + 1
            numbers.append(value)
        start, length = numbers[0], numbers[1] or 0x10000
        made += base[start : start + length]
        if len(made) > _MOST_OF_A_COMMIT:
            raise ValueError("not a commit")
    return bytes(made)
