"""Schemathesis over the whole API, with two users. Run by tools/schemathesis: python outside.py ST EXAMPLES

Left out are the streams, which never end, and the one call that would end the caller's own token. Two of the checks are
not asked for: that whatever fits the schema is accepted (a date, a topic or a label may still make no sense, and is then
refused with a sentence), and that what does not fit is refused in a query string, where unknown names are passed over.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.faults.press import tell
from tests.helpers import start_server
from tests.trust.people import Key

NOT_ASKED = "positive_data_acceptance,negative_data_rejection,unsupported_method"
NEVER_END = "events$|/wait$|^/api/tokens/"


def main(st: str, examples: str) -> int:
    home = Path(tempfile.mkdtemp())
    worst, cases = 0, 0
    with start_server(home, PALAVER_AUTH="token", PALAVER_DATABASE_URL=f"sqlite:///{home}/data") as server:
        for kind in ("human", "agent"):
            key = Key(server, kind=kind, name="tester", scopes=("read", "write", "admin"))
            command = [
                st, "run", f"{server.url}/openapi.json", "-H", f"Authorization: Bearer {key.secret}",
                "--max-examples", examples, "--phases", "examples,coverage,fuzzing", "--exclude-path-regex", NEVER_END,
                "--exclude-checks", NOT_ASKED, "--request-timeout", "30", "--generation-database", "none",
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
