"""Write docs/reliability.md from what the tests measured.

PALAVER_REPORT=.cache/report.tsv make faults && python tools/reliability.py .cache/report.tsv
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

HEAD = """<!-- Made by tools/reliability.py from a run of the tests: do not edit by hand. -->
# What it withstands

Each line is what one test measured the last time this page was written. Run it again with
`make test ARGS="-s -k NAME"` (short) or `make faults ARGS="-k NAME"` (long: 200 kills, everybody at every door on both
engines); `tests/trust/outside.py` with `make schemathesis`, `tests/conformance/run.py` with `make conformance`. The
tests fail when a promise is broken; the figures say by how much it is kept.

{about}

| where | test | engine | measured |
|---|---|---|---|
"""

TAIL = """
The MCP suite judges palaver's own door; the tools it asks for (`tests/conformance/fixtures.py`) are in no real server.
`tests/trust/outside.py` asks for all of schemathesis' checks and says what a schema cannot tell them.
`tests/store/test_bus_machine.py` compares the bus with a model; the other files of `tests/trust/` hold revocation, the
audit log, backup, purge, deadlines and logs to their promises.
"""


def main(report: str, about: str = "") -> None:
    rows: dict[tuple[str, str, str], str] = {}
    for line in Path(report).read_text("utf-8").splitlines():
        test, _, measured = line.partition("\t")
        file, _, rest = test.partition("::")
        name, _, which = rest.partition("[")
        engine, _, more = which.rstrip("]").partition("-")
        if engine not in ("sqlite", "postgres"):
            engine, more = "", which.rstrip("]")
        said = name.removeprefix("test_").replace("_", " ") or "all of it together"
        rows[file, f"{said} ({more})" if more else said, engine] = measured
    table = "".join(
        f"| `{file.removeprefix('tests/')}` | {said} | {engine} | {measured} |\n"
        for (file, said, engine), measured in sorted(rows.items())
    )
    (ROOT / "docs" / "reliability.md").write_text(HEAD.format(about=about) + table + TAIL, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
