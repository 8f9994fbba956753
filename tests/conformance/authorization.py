"""The authorization scenarios of the official MCP conformance suite, with a scripted browser. Run by tools/conformance.

The second scenario uses what the first one has read, so both run together.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import httpx
from tests.helpers import NO_TLS, free_port, start_server
from tests.oauth.flow import Person, Program
from tests.oauth.test_clients import goes_through
from tests.trust.people import Key

ERAS = ("2025-11-25", "2026-07-28")
SCENARIOS = ("authorization-server-metadata-endpoint", "authorization-code-grant")


def main(modules: str) -> int:
    node, suite = f"{modules}/.bin/node", Path(modules) / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    failed = 0
    with start_server(Path(tempfile.mkdtemp()), PALAVER_AUTH="token", PALAVER_DATABASE_URL="") as server:
        person, port = Person(server, Key(server)), free_port()
        program = Program(server, f"http://127.0.0.1:{port}/callback")
        asked = ["--url", server.url, "--client-id", program.client_id, "--resource", f"{server.url}/mcp"]
        for era in ERAS:
            command = [node, str(suite), "authorization", *asked, "--port", str(port), "--spec-version", era]
            failed |= _run(command, person, era)
    return failed


def _run(command: list[str], person: Person, era: str) -> int:
    """Run the suite; where it asks somebody to open an address, open it and allow what is asked."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout
    said = ""
    for line in process.stdout:
        said += line
        if found := re.search(r"http\S+/authorize\?\S+", line):
            threading.Thread(
                target=httpx.get, args=(goes_through(person, found[0]),), kwargs={"verify": NO_TLS}
            ).start()
    is_good = process.wait() == 0 and all(name in said for name in SCENARIOS)
    counts = re.findall(r"Passed: .*|Total: .*", said)
    print(f"\n{era:<50} authorization: {'; '.join(counts) or said[-2000:]}")
    if not is_good:
        print(said[-4000:])
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
