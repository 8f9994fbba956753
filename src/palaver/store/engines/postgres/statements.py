"""The named statements, in the form that psycopg needs."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from palaver.store.engines import named_sql

BY_COPY = "_by_copy"
"""Suffix of the names of COPY statements."""
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
_LIST = re.compile(r"\bjson_each\((:[a-z_]+)\)")
_ABOUT_THE_LOG = re.compile(r"\b(?:FROM|INTO|UPDATE|JOIN) events\b")


@cache
def translated(sql: str) -> str:
    """Rewrite the parameters from `:name` to the form that psycopg needs, and lists from `json_each(:name)`."""
    sql = _LIST.sub(r"jsonb_array_elements_text(CAST(\1 AS jsonb))", sql)
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


class Statements(NamedTuple):
    by_name: dict[str, str]
    about_event_log: frozenset[str]
    copies: dict[str, str]
    """The COPY that writes the same rows as an INSERT, by the INSERT."""


@cache
def statements() -> Statements:
    by_name = {name: translated(sql) for name, sql in named_sql.load("postgres").items()}
    log = frozenset(sql for name, sql in by_name.items() if _ABOUT_THE_LOG.search(sql) and name != "insert_event")
    copies = {by_name[name.removesuffix(BY_COPY)]: sql for name, sql in by_name.items() if name.endswith(BY_COPY)}
    return Statements(by_name, log, copies)
