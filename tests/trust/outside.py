"""Schemathesis over the whole API, with two users. Run by tools/schemathesis: python outside.py ST EXAMPLES

Left out are the streams, which never end, and the one call that would end the caller's own token. All checks are asked
for, three of them with what a schema cannot say:

- Whatever fits the schema is accepted, or refused with 400 and a sentence: a topic of blanks has the right shape and makes
  no sense. That it has the wrong shape (422) may be said only where the shape is more than a schema says: a time, a zone, a text
  with a pattern (`$` lets a line break through where schemathesis makes texts), a name that can be printed or is not
  blank, a field that is required where another is missing. No text may have a NUL in it, so the person is asked for this and sends none; the
  agent sends them, and is not asked.
- What does not fit is refused, but not in a query string: unknown names are passed over there, and what is out of range
  is moved to the nearest bound, everywhere. Nor in an upload: in a form a number is a file with digits in it.
- Another method is 405, but not below a session: any text is the name of one, `x/export` too.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
from tests.faults.press import tell
from tests.helpers import PATIENCE, start_server
from tests.trust.people import Key

NEVER_END = "events$|/wait$|^/api/tokens/"
TIMES = {"as_of", "before", "created_at", "date_from", "date_to", "since", "time_zone", "timezone", "ts", "until"}
NOT_BLANK = {"project"}
MORE_THAN_A_SCHEMA_SAYS = {
    "GET /api/knowledge/open",
    "POST /api/hooks/{event}",
    "POST /api/knowledge/get",
    "POST /api/searches",
    "POST /api/threads/{thread_id}/messages",
    "POST /api/tokens",
    "PUT /api/searches/{search_id}",
}
SESSIONS = [f"/api/v1/agents/{{agent}}/sessions/{{session}}/{what}" for what in ("export", "messages", "steps")]
FITTING = ["2xx", "3xx", "400", "401", "403", "404", "409", "429", "503"]


def config(document: dict[str, Any], with_nul: bool) -> str:
    """What is expected, in schemathesis' own words."""
    strange = [
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method, said in methods.items()
        if f"{method.upper()} {path}" in MORE_THAN_A_SCHEMA_SAYS or _is_more(said)
    ]
    with_query = [
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method, said in methods.items()
        if any(parameter["in"] == "query" for parameter in said.get("parameters", []))
    ]
    return f"""
[generation]
allow-x00 = {json.dumps(with_nul)}

[checks.positive_data_acceptance]
expected-statuses = {json.dumps([*FITTING, "422"] if with_nul else FITTING)}

[[operations]]
include-name = {json.dumps(strange)}
checks.positive_data_acceptance.expected-statuses = {json.dumps([*FITTING, "422"])}

[[operations]]
include-name = {json.dumps(with_query)}
checks.negative_data_rejection.enabled = false

[[operations]]
include-name = "POST /api/upload/file"
checks.negative_data_rejection.enabled = false

[[operations]]
include-path = {json.dumps(SESSIONS)}
checks.unsupported_method.enabled = false
"""


def _is_more(said: dict[str, Any]) -> bool:
    asked = json.dumps([said.get("parameters"), said.get("requestBody")])
    names = {parameter["name"] for parameter in said.get("parameters", [])}
    names |= set(re.findall(r'"(\w+)": \{', asked))
    return bool(names & (TIMES | NOT_BLANK)) or '"pattern"' in asked


def main(st: str, examples: str) -> int:
    home = Path(tempfile.mkdtemp())
    worst, cases = 0, 0
    with start_server(home, PALAVER_AUTH="token", PALAVER_DATABASE_URL=f"sqlite:///{home}/data") as server:
        expected = home / "schemathesis.toml"
        document = httpx.get(f"{server.url}/openapi.json", timeout=PATIENCE).json()
        for kind in ("human", "agent"):
            expected.write_text(config(document, with_nul=kind == "agent"), "utf-8")
            key = Key(server, kind=kind, name="tester", scopes=("read", "write", "admin"))
            command = [
                st, "--config-file", str(expected), "run", f"{server.url}/openapi.json",
                "-H", f"Authorization: Bearer {key.secret}", "--max-examples", examples,
                "--phases", "examples,coverage,fuzzing", "--exclude-path-regex", NEVER_END,
                "--request-timeout", "30", "--generation-database", "none",
                "--suppress-health-check", "all", "--no-color", "--warnings", "off",
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True)
            found = re.search(r"([\d,]+) generated", done.stdout)
            cases += int(found[1].replace(",", "")) if found else 0
            worst = max(worst, done.returncode)
            tail = done.stdout if done.returncode else "\n".join(done.stdout.splitlines()[-12:])
            print(f"== as a {kind}\n{tail}\n{done.stderr}")
        if "Traceback" in server.said():
            print(server.said())
            worst = 1
    how = "no failure" if not worst else "with failures"
    tell(f"{cases} cases with two users, {how}", "tests/trust/outside.py::[sqlite]")
    print()
    return worst


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
