"""Statement names and row dicts are used inside `store/` only."""

from __future__ import annotations

import ast
from pathlib import Path

import palaver
from palaver.store.engines import named_sql

PACKAGE = Path(palaver.__file__).parent
STATEMENTS = named_sql.load("sqlite").keys() | named_sql.load("postgres").keys()
RUN = {"all", "one", "must", "rows", "run", "run_rows", "sql"}


def test_no_other_package_runs_a_statement_or_handles_rows():
    found: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if (name := path.relative_to(PACKAGE).as_posix()).startswith("store/"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Constant(value=str() as statement), *_]):
                    if attr in RUN and statement in STATEMENTS:
                        found.append(f"{name}:{node.lineno} runs {statement}")
                case ast.ImportFrom(module=str() as module, names=names) if module.startswith("palaver.store"):
                    found += [f"{name}:{node.lineno} imports Row" for one in names if one.name == "Row"]
    assert not found
