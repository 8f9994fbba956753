"""Migrations that were released never change: databases of 0.1 have run them."""

from __future__ import annotations

import hashlib

import pytest

from palaver.store.engines import named_sql

RELEASED = {
    ("sqlite", "workspace"): (11, "f327054036e3bff6"),
    ("sqlite", "server"): (3, "a4ca18a554837fef"),
    ("postgres", "workspace"): (11, "012574bc980e98a2"),
    ("postgres", "server"): (3, "dd3c6912e63741ca"),
}
"""The number of the last migration of 0.1, and a hash of all up to it."""


@pytest.mark.parametrize("dialect, kind", RELEASED)
def test_released_migrations_are_as_they_were(dialect: str, kind: str):
    last, digest = RELEASED[dialect, kind]
    released = [sql for number, sql in named_sql.migrations(dialect, kind) if number <= last]
    assert len(released) == last
    assert hashlib.sha256("".join(released).encode()).hexdigest()[:16] == digest
