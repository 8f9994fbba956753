"""Backup and restore: one tar file with a copy of every database, the transcripts and the uploads.

    manifest.json                      the engine, the schema versions, and a hash of every file
    databases/house/…                  workspaces, tokens, the audit log
    databases/workspaces/NAME/…        one file (SQLite), or one for each table (PostgreSQL)
    sessions/… uploads/…               as in the data directory

Databases are copied first. Turns recorded meanwhile are in the copied transcripts, and are indexed after restoring.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

import orjson

from palaver.errors import Conflict, Refused, Unavailable
from palaver.model.times import iso, now
from palaver.settings import Settings
from palaver.synced_files import make_folder, sync_folder

FORMAT = 1
FOLDERS = ("sessions", "uploads", "discarded")
MANIFEST = "manifest.json"


@dataclass
class BackupWriter:
    """Writes a backup."""

    tar: tarfile.TarFile
    hashes: dict[str, str] = field(default_factory=dict)
    schemas: dict[str, int] = field(default_factory=dict)

    def add_database(self, name: str, folder: Path, schema: int) -> None:
        self.schemas[name] = schema
        self.add_folder(folder, f"databases/{name}")

    def add_folder(self, folder: Path, name: str) -> None:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.startswith(".") and "incoming" not in path.parts:
                self._add(path, f"{name}/{path.relative_to(folder).as_posix()}")

    def _add(self, path: Path, name: str) -> None:
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return  # deleted meanwhile
        with file:
            about = self.tar.gettarinfo(arcname=name, fileobj=file)
            about.uid = about.gid = 0
            about.uname = about.gname = ""
            about.mode = 0o600
            # The file may grow while it is read. Only its current size is copied.
            reading = _Hashing(file, about.size)
            self.tar.addfile(about, cast(IO[bytes], reading))
            self.hashes[name] = reading.digest


class _Hashing:
    """Hashes a file while it is read, up to a size."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left, self._hash = file, size, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(min(self._left, size) if size >= 0 else self._left)
        self._left -= len(data)
        self._hash.update(data)
        return data

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


@contextmanager
def write_backup(to: Path, engine: str, version: str) -> Iterator[BackupWriter]:
    """Write a backup. The file gets its name once it is complete. After an error there is no file."""
    if to.exists():
        raise Conflict(f"{to.name} exists already. Choose another name.")
    partial = to.with_name(f".{to.name}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz" if to.suffix in (".gz", ".tgz") else "w") as tar:
                backup = BackupWriter(tar)
                yield backup
                manifest = {
                    "format": FORMAT,
                    "palaver": version,
                    "engine": engine,
                    "made_at": iso(now()),
                    "schemas": backup.schemas,
                    "files": backup.hashes,
                }
                data = orjson.dumps(manifest, option=orjson.OPT_INDENT_2)
                about = tarfile.TarInfo(MANIFEST)
                about.size, about.mode = len(data), 0o600
                tar.addfile(about, io.BytesIO(data))
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, to)
        sync_folder(to.parent)
    except OSError as problem:
        raise Unavailable(f"The backup could not be written ({problem.strerror}).") from None
    finally:
        partial.unlink(missing_ok=True)


@dataclass(frozen=True)
class UnpackedBackup:
    """A complete backup, unpacked into a folder."""

    folder: Path
    engine: str
    schemas: dict[str, int]

    def database(self, name: str) -> Path:
        return self.folder / "databases" / name

    @property
    def workspaces(self) -> list[str]:
        return sorted(name.removeprefix("workspaces/") for name in self.schemas if name != "house")


@contextmanager
def unpack(backup: Path, beside: Path) -> Iterator[UnpackedBackup]:
    """Unpack a backup into a temporary folder and compare every file with its hash."""
    beside.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(prefix=".restoring-", dir=beside))
    try:
        try:
            with tarfile.open(backup) as tar:
                tar.extractall(folder, filter="data")
            manifest = orjson.loads((folder / MANIFEST).read_bytes())
        except FileNotFoundError as problem:
            missing = "it has no manifest.json" if problem.filename else "there is no such file"
            raise Refused(f"{backup.name} cannot be restored: {missing}.") from None
        except (tarfile.TarError, EOFError, ValueError, OSError) as problem:
            raise Refused(f"{backup.name} cannot be read: it is not a backup, or it is damaged ({problem}).") from None
        if manifest.get("format") != FORMAT:
            raise Refused(f"{backup.name} was made by a newer palaver. Upgrade first.")
        for name, expected in manifest["files"].items():
            path = folder / name
            if not path.is_file() or _hash(path) != expected:
                raise Refused(f"{backup.name} is damaged: {name} is missing or was changed.")
        yield UnpackedBackup(folder, manifest["engine"], manifest["schemas"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def restore(settings: Settings, backup: Path) -> UnpackedBackup:
    """Restore a backup into an empty data directory and an empty database."""
    from palaver.store.workspaces import engine_name

    with unpack(backup, settings.data) as found:
        mine = engine_name(settings)
        if found.engine != mine:
            raise Refused(f"This is a backup of {found.engine} data, and PALAVER_DATABASE_URL names {mine}.")
        for name in FOLDERS:
            if any((settings.data / name).glob("*")):
                raise Conflict(f"There is data here already ({name}). Restore into an empty --home.")
        restore_databases = _to_postgres if mine == "postgres" else _to_sqlite
        restore_databases(settings, found)
        for name in FOLDERS:
            if (found.folder / name).is_dir():
                if (settings.data / name).is_dir():
                    (settings.data / name).rmdir()
                os.replace(found.folder / name, settings.data / name)
        for name in FOLDERS:
            folder = settings.data / name
            for path in (folder, *folder.rglob("*")) if folder.is_dir() else ():
                path.chmod(0o700 if path.is_dir() else 0o600)
                _sync(path)
        sync_folder(settings.data)
        return found


def _to_sqlite(settings: Settings, found: UnpackedBackup) -> None:
    from palaver.store.engines.sqlite import engine as sqlite
    from palaver.store.workspaces import file_of

    places: dict[Path, Path] = {found.database("house") / "database.db": file_of(settings, "server", "server")}
    for name in found.workspaces:
        places[found.database(f"workspaces/{name}") / "database.db"] = file_of(settings, name, "workspace")
    for place in places.values():
        if place.exists():
            raise Conflict("There is data here already. Restore into an empty --home, or move it away first.")
    for copy in places:
        problems = sqlite.problems_of(copy)
        if problems:
            raise Refused(f"A database in the backup is damaged: {problems[0]}.")
    for copy, place in places.items():
        make_folder(place.parent)
        shutil.copyfile(copy, place)
        place.chmod(0o600)
        _sync(place)
        sync_folder(place.parent)


def _sync(path: Path) -> None:
    """Sync a file or a folder."""
    if path.is_dir():
        sync_folder(path)
        return
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _to_postgres(settings: Settings, found: UnpackedBackup) -> None:
    from palaver.store.engines.postgres import schemas as postgres
    from palaver.store.workspaces import schema_of

    names = {"house": ("server", schema_of("server", "server"))}
    names |= {f"workspaces/{n}": ("workspace", schema_of(n, "workspace")) for n in found.workspaces}
    taken = postgres.existing_schemas(settings.database_url, [schema for _, schema in names.values()])
    if taken:
        raise Conflict(f"There is data in this database already (schema {taken[0]}). Restore into an empty database.")
    for name, (kind, schema) in names.items():
        postgres.load_copy(settings.database_url, schema, kind, found.schemas[name], found.database(name))
