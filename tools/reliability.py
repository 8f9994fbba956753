"""Write docs/reliability.md from the results of the fault tests.

PALAVER_REPORT=.cache/report.tsv make faults && python tools/reliability.py .cache/report.tsv "On what, and how busy."

One file may contain several reports. A later result replaces an earlier one.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

HEAD = """<!-- Made by tools/reliability.py from a run of the tests: do not edit by hand. -->
# Reliability

Each row is the latest result of one test, with the command to repeat it. `make faults` is the
long run: 1,000 kills, 100 power cuts, and every user at every door on both engines. `make soak` runs 50 clients for
half an hour. `make test` and `make test-all` have a short run of each. A test fails when palaver breaks a guarantee.

{about}

| test | engine | result | date | repeat |
|---|---|---|---|---|
"""

TAIL = """
- The MCP suite tests palaver's own MCP server. The tools it calls (`tests/conformance/fixtures.py`) are only in tests.
- `tests/store/test_upgrade.py` upgrades every earlier schema with data in it.
- `tests/faults/test_clock.py` moves the clock.
- A power cut is simulated (`tests/faults/mixed/`): a layer below SQLite and Python's file functions writes down every
  write and every sync. After `kill -9` the test makes a new data directory from this record. Synced data is there. Of
  the other writes a random part is there, also half a write, in any order. A file name whose folder was not synced may
  be lost or old. The server must start from this directory with everything that was acknowledged. A second test shows
  that a disk which ignores syncs is noticed. PostgreSQL's own files are not tested in this way.
- After a power cut, the last line of a transcript may be unreadable. It was never acknowledged; `palaver doctor` names
  it, and `--repair` sets it aside.
- In the soak, each client chooses at random: post, edit, delete, react, wait, listen, search, ask, notes, prompts,
  uploads, imports, sessions, MCP calls, read marks, opening and closing threads. At the end each acknowledged thing is
  read again, and each event must have been told once.
- `tests/trust/test_purge.py` searches every file for deleted data.
- `tests/trust/outside.py` runs all checks of schemathesis and adds rules that a schema cannot express.
- `tests/faults/test_background_check.py` damages the data of a running server and looks for the finding in every place.
- `tests/fuzz/` reads strange and hostile inputs with every parser; `make fuzz ARGS="--minutes 10"` is the long run. It
  has no coverage feedback: atheris has no wheel for every platform and could not be built where this page was made.
- `make try-deploy` runs the systemd unit and the image.
  [The guide](guides/running.md#what-was-run-of-the-deployment-files) has its output and what was not run.
- `tests/store/test_bus_machine.py` compares the bus with a model.
- The other files of `tests/trust/` test revocation, the audit log, backup, purge, deadlines and logs.
"""


COMMANDS = {
    "tests/trust/outside.py": "make schemathesis ARGS=60",
    "tests/conformance/run.py": "make conformance",
    "tests/faults/mixed/soak.py": 'make soak ARGS="--engine {engine}"',
}


def main(report: str, about: str = "") -> None:
    rows: dict[tuple[str, str, str], tuple[str, str, str]] = {}
    for line in Path(report).read_text("utf-8").splitlines():
        test, measured, mode, day = line.split("\t")
        file, _, rest = test.partition("::")
        name, _, which = rest.partition("[")
        engine, _, more = which.rstrip("]").partition("-")
        if engine not in ("sqlite", "postgres"):
            engine, more = "", which.rstrip("]")
        said = name.removeprefix("test_").replace("_", " ") or f"all of `{file}`"
        rows[file, f"{said} ({more})" if more else said, engine] = (
            measured,
            day,
            again(file, name, engine, mode == "long"),
        )
    table = "".join(
        f"| {said} | {engine} | {measured} | {day} | `{command}` |\n"
        for (_, said, engine), (measured, day, command) in sorted(rows.items())
    )
    (ROOT / "docs" / "reliability.md").write_text(HEAD.format(about=about) + table + TAIL, "utf-8")


def again(file: str, name: str, engine: str, is_long: bool) -> str:
    """The command that repeats a test."""
    if file in COMMANDS:
        return COMMANDS[file].format(engine=engine)
    what = f"{file}::{name}" if name else file
    return f'make {"faults" if is_long else "test"} ARGS="{"" if is_long else "-n 0 -s "}{what}"'


if __name__ == "__main__":
    main(*sys.argv[1:])
