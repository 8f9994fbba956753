"""Say in plain words why a file cannot be read, and make names from files safe to print."""

from __future__ import annotations

import zipfile
import zlib

from palaver.importers import Unreadable, clean

EXPECTED = (Unreadable, OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, MemoryError)
"""Errors that a damaged file causes. Any other is a fault of the importer."""


def describe_problem(problem: Exception) -> str:
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
    return f"it cannot be read ({printable(f'{type(problem).__name__}: {problem}')})"


def printable(name: str) -> str:
    """A name from a file, without control characters and at most 1,000 characters long."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in clean(name[:1000]))
