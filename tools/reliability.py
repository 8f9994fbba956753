"""Write docs/reliability.md from what the tests measured.

PALAVER_REPORT=.cache/report.tsv make faults && python tools/reliability.py .cache/report.tsv "On what, and how busy."

Several reports may be given in one file: what stands later counts.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

HEAD = """<!-- Made by tools/reliability.py from a run of the tests: do not edit by hand. -->
# What it withstands

Each line is what one test measured the last time it was run for this page, and the command that runs it again. `make
faults` is the long run (200 kills, everybody at every door on both engines), `make test` the short one. The tests fail
when a promise is broken; the figures say by how much it is kept.

{about}

| test | engine | measured | again |
|---|---|---|---|
"""

TAIL = """
The MCP suite judges palaver's own door; the tools it asks for (`tests/conformance/fixtures.py`) are in no real server.
Every earlier schema is upgraded with data in it by `tests/store/test_upgrade.py`, clocks jump in
`tests/faults/test_clock.py`, deletions are searched for in every file by `tests/trust/test_purge.py`.
`tests/trust/outside.py` asks for all of schemathesis' checks and says what a schema cannot tell them.
`tests/store/test_bus_machine.py` compares the bus with a model; the other files of `tests/trust/` hold revocation, the
audit log, backup, purge, deadlines and logs to their promises.
"""


COMMANDS = {"tests/trust/outside.py": "make schemathesis", "tests/conformance/run.py": "make conformance"}


def main(report: str, about: str = "") -> None:
    rows: dict[tuple[str, str, str], tuple[str, str]] = {}
    for line in Path(report).read_text("utf-8").splitlines():
        test, measured, *mode = line.split("\t")
        file, _, rest = test.partition("::")
        name, _, which = rest.partition("[")
        engine, _, more = which.rstrip("]").partition("-")
        if engine not in ("sqlite", "postgres"):
            engine, more = "", which.rstrip("]")
        said = name.removeprefix("test_").replace("_", " ") or f"all of `{file}`"
        rows[file, f"{said} ({more})" if more else said, engine] = (measured, again(file, name, mode == ["long"]))
    table = "".join(
        f"| {said} | {engine} | {measured} | `{command}` |\n"
        for (_, said, engine), (measured, command) in sorted(rows.items())
    )
    (ROOT / "docs" / "reliability.md").write_text(HEAD.format(about=about) + table + TAIL, "utf-8")


def again(file: str, name: str, is_long: bool) -> str:
    """The command that measures it again."""
    if file in COMMANDS:
        return COMMANDS[file]
    what = f"{file}::{name}" if name else file
    return f'make {"faults" if is_long else "test"} ARGS="{"" if is_long else "-n 0 -s "}{what}"'


if __name__ == "__main__":
    main(*sys.argv[1:])
