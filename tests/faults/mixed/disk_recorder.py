"""Runs inside a server: writes down everything that reaches the disk, and when it was synced.

`crash_state.py` makes from this record what a disk may hold after a power failure. SQLite is recorded by a layer of its
file system interface, other files where Python syncs, renames or deletes them. Nothing is really synced, because only
the record counts. It is written before each step, and it survives the kill of the process.

A file is known by its inode number. The number of a deleted file can be used again, so a counter is added to it.
"""

import os
import pickle
import stat
import threading

import apsw

ROOT = os.environ["DISK_ROOT"]
IGNORES_SYNCS = os.environ.get("DISK_IGNORES_SYNCS") == "1"
RECORD = os.open(os.environ["DISK_RECORD"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
NEW_LOGS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL

lock = threading.RLock()
used_before: dict[int, int] = {}


def record(*entry):
    with lock:
        os.write(RECORD, pickle.dumps(entry))


def id_of(about):
    return f"{about.st_ino}.{used_before.get(about.st_ino, 0)}"


def is_inside(path):
    return path == ROOT or path.startswith(ROOT + "/")


def record_folder(path):
    if IGNORES_SYNCS or not is_inside(path):
        return
    with lock:
        names = {}
        for entry in os.scandir(path):
            names[entry.name] = id_of(entry.stat(follow_symlinks=False))
        record("folder", id_of(os.stat(path)), names)


def record_gone(path, dir_fd=None):
    """Call this before a file is deleted or replaced."""
    with lock:
        try:
            about = os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
        except OSError:
            return
        record("gone", about.st_ino)
        used_before[about.st_ino] = used_before.get(about.st_ino, 0) + 1


# Files that Python writes

real = {name: getattr(os, name) for name in ("unlink", "rmdir", "replace", "rename")}


def fsync(descriptor):
    about = os.fstat(descriptor)
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    if stat.S_ISDIR(about.st_mode):
        record_folder(path)
    elif is_inside(path) and not IGNORES_SYNCS:
        with open(f"/proc/self/fd/{descriptor}", "rb") as file:
            record("file", id_of(about), file.read())


def unlink(path, *, dir_fd=None):
    record_gone(path, dir_fd)
    real["unlink"](path, dir_fd=dir_fd)


def rmdir(path, *, dir_fd=None):
    record_gone(path, dir_fd)
    real["rmdir"](path, dir_fd=dir_fd)


def replace(source, target, **more):
    record_gone(target)
    real["replace"](source, target, **more)


def rename(source, target, **more):
    record_gone(target)
    real["rename"](source, target, **more)


os.fsync = os.fdatasync = fsync
os.unlink = os.remove = unlink
os.rmdir, os.replace, os.rename = rmdir, replace, rename  # type: ignore[assignment]


# Files that SQLite writes


class File(apsw.VFSFile):
    def __init__(self, name, flags):
        super().__init__("unix", name, flags)
        self.path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self.id = id_of(os.stat(self.path)) if self.path and is_inside(self.path) else None
        # SQLite itself syncs the folder with the first sync of a log.
        self.syncs_folder = bool(flags[0] & NEW_LOGS and flags[0] & apsw.SQLITE_OPEN_CREATE)

    def xWrite(self, data, offset):
        if self.id:
            record("write", self.id, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size):
        if self.id:
            record("truncate", self.id, size)
        super().xTruncate(size)

    def xSync(self, flags):
        if not self.id or IGNORES_SYNCS:
            return
        record("sync", self.id)
        if self.syncs_folder:
            self.syncs_folder = False
            record_folder(os.path.dirname(self.path))


class Layer(apsw.VFS):
    def __init__(self):
        super().__init__("recorded", "unix", makedefault=True)

    def xOpen(self, name, flags):
        return File(name, flags)

    def xDelete(self, name, syncs_folder):
        record_gone(name)
        super().xDelete(name, False)
        if syncs_folder:
            record_folder(os.path.dirname(name))


layer = Layer()
