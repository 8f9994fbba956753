"""The official MCP conformance suite against palaver's own door. Run by tools/conformance: python run.py NODE_MODULES

For both protocol eras everything the suite calls required must pass; what it runs without counting it (extensions, and
scenarios its own reference server cannot pass yet) is shown and decides nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import yaml
from tests.faults.press import tell
from tests.helpers import start_server

ERAS = ("2025-11-25", "2026-07-28")
ROOT = Path(__file__).parents[2]
BEFORE = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.conformance import fixtures; fixtures.install()"


def main(modules: str) -> int:
    node, suite = f"{modules}/.bin/node", Path(modules) / "@modelcontextprotocol" / "conformance"
    place = Path(tempfile.mkdtemp())
    failed, said = 0, []
    with start_server(place / "home", before=BEFORE) as server:
        for era in ERAS:
            asked = ["--url", f"{server.url}/mcp", "--requirements", era, "--output-dir", str(place / era)]
            done = subprocess.run(
                [node, str(suite / "dist/index.js"), "server", *asked], capture_output=True, text=True
            )
            required = yaml.safe_load((suite / "requirements" / f"{era}.yaml").read_text("utf-8"))["server"]
            passed = _show(era, required, _judged(place / era))
            said.append(f"{era}: {passed} of {len(required)} required scenarios passed")
            failed |= done.returncode or passed != len(required)
            if done.returncode:
                print(done.stderr[-4000:])
        if "Traceback" in server.said():
            print(server.said())
            failed = 1
    tell("; ".join(said), "tests/conformance/run.py::[sqlite]")
    print()
    return failed


def _judged(folder: Path) -> dict[str, tuple[Counter[str], list[str]]]:
    """For each scenario: how often each verdict was given, and what was said against us."""
    found = {}
    for file in sorted(folder.glob("server-*/checks.json")):
        checks = json.loads(file.read_text("utf-8"))
        name = file.parent.name.removeprefix("server-")[: -len("-2026-07-28T00-00-00-000Z")]
        against = [f"{c['id']}: {c.get('errorMessage', '')}" for c in checks if c["status"] in ("FAILURE", "WARNING")]
        found[name] = (Counter(check["status"] for check in checks), against)
    return found


def _show(era: str, required: list[str], judged: dict[str, tuple[Counter[str], list[str]]]) -> int:
    """Print the table; how many of the required scenarios passed."""
    print(f"\n{era:<50} {'':12} passed failed warned skipped")
    passed = 0
    for name in [*required, *sorted(judged.keys() - set(required))]:
        verdicts, against = judged.get(name, (Counter(), ["was not run"]))
        is_good = bool(verdicts) and not verdicts["FAILURE"]
        passed += is_good and name in required
        counts = "  ".join(f"{verdicts[kind]:>5}" for kind in ("SUCCESS", "FAILURE", "WARNING", "SKIPPED"))
        print(f"  {'✓' if is_good else '✗'} {name:<46} {'' if name in required else 'not counted':12} {counts}")
        for line in against if name in required else ():
            print(f"      {line[:300]}")
    return passed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
