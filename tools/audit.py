"""Look for known vulnerabilities of the packages in requirements/: `make audit ARGS="--osv FILE"`.

FILE is the export of the OSV database for PyPI (all.zip). It has to be downloaded from https://osv.dev first: without
a network nobody can know of a new vulnerability. Nothing else here needs a network. The exit code is 1 if a package has
a known vulnerability, and 2 if nothing could be checked.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements/runtime.txt", "requirements/build.txt", "requirements/dev.txt")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\\n]+)", re.MULTILINE)


def main() -> int:
    options = argparse.ArgumentParser(prog="make audit", description=(__doc__ or "").split("\n")[0])
    options.add_argument("--osv", type=Path, help="The OSV export for PyPI: all.zip.")
    given = options.parse_args()
    pinned = {lock: locked(lock) for lock in LOCKS}
    total = len({pin for pins in pinned.values() for pin in pins.items()})
    if given.osv is None:
        print(
            f"Not checked: {total} packages. A list of vulnerabilities is needed. Download the PyPI export of OSV "
            '(https://osv.dev, all.zip) where there is a network, then: make audit ARGS="--osv all.zip". '
            "Or run there: pip-audit --require-hashes --disable-pip -r requirements/runtime.txt"
        )
        return 2
    count = 0
    newest = ""
    for entry in entries(given.osv):
        newest = max(newest, str(entry.get("modified", "")))
        for lock, pins in pinned.items():
            for name, version in affected(entry, pins):
                count += 1
                print(f"{lock}: {name} {version}: {entry['id']} {entry.get('summary', '')}".rstrip())
    print(f"{total} packages checked, {count} known vulnerabilities; the newest entry of the list is of {newest[:10]}.")
    return 1 if count else 0


def locked(lock: str) -> dict[str, str]:
    return {canonical(name): version for name, version in _PIN.findall((ROOT / lock).read_text("utf-8"))}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(path: Path) -> Iterator[dict[str, Any]]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".json"):
                entry = json.loads(archive.read(name))
                if not entry.get("withdrawn"):
                    yield entry


def affected(entry: dict[str, Any], pins: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The pinned packages that an entry names with their version."""
    found = set()
    for one in entry.get("affected", ()):
        package = one.get("package", {})
        name = canonical(package.get("name", ""))
        version = pins.get(name)
        if package.get("ecosystem") == "PyPI" and version and has_version(one, version):
            found.add((name, version))
    yield from sorted(found)


def has_version(one: dict[str, Any], version: str) -> bool:
    if version in one.get("versions", ()):
        return True
    return any(is_between(rule["events"], version) for rule in one.get("ranges", ()) if rule.get("type") == "ECOSYSTEM")


def is_between(events: list[dict[str, str]], version: str) -> bool:
    """Events are in order: a version from "introduced" on is affected, until "fixed" or after "last_affected"."""
    is_inside = False
    for event in events:
        if "introduced" in event and (event["introduced"] == "0" or not is_less(version, event["introduced"])):
            is_inside = True
        elif ("fixed" in event and not is_less(version, event["fixed"])) or (
            "last_affected" in event and is_less(event["last_affected"], version)
        ):
            is_inside = False
    return is_inside


def is_less(one: str, other: str) -> bool:
    try:
        return Version(one) < Version(other)
    except InvalidVersion:
        return False


if __name__ == "__main__":
    sys.exit(main())
