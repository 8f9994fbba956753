"""Write the list of everything that is shipped (an SBOM, CycloneDX 1.6) from the lock file: `make sbom`.

It has the packages of requirements/runtime.txt with their hashes and licences, and the JavaScript libraries and the
model inside the wheel. The same commit gives the same file: the time is that of SOURCE_DATE_EPOCH or of the commit.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import uuid
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "runtime.txt"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)(?: *; *([^\\]+?))? *\\?$")
_HASH = re.compile(r"^ +--hash=sha256:([0-9a-f]{64})")
VENDORED = {"lit-html": r'litHtmlVersions\?\?=\[\]\)\.push\("([\d.]+)"\)', "marked": r"marked v([\d.]+)"}
"""How each JavaScript library of the console writes its version."""


def main(target: str = "dist/palaver.cdx.json") -> None:
    path = ROOT / target
    path.parent.mkdir(parents=True, exist_ok=True)
    found = bom()
    path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", "utf-8")
    print(f"{target}: {len(found['components'])} components")


def bom() -> dict[str, Any]:
    version = re.search(r'__version__ = "([^"]+)"', (ROOT / "src/palaver/__init__.py").read_text("utf-8"))
    assert version
    locked = packages(LOCK.read_text("utf-8"))
    components = [package(*one) for one in locked] + vendored()
    direct = direct_dependencies()
    reference = f"pkg:pypi/palaver-bus@{version[1]}"
    about = component("application", "palaver-bus", version[1], reference) | {"licenses": [{"license": {"id": "MIT"}}]}
    names = {name.lower(): f"pkg:pypi/{name.lower()}@{pinned}" for name, pinned, *_ in locked}
    depends = [{"ref": reference, "dependsOn": sorted(names[name] for name in direct if name in names)}]
    made = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": time_of_commit(), "component": about},
        "components": components,
        "dependencies": depends,
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(made, sort_keys=True))
    return {"serialNumber": f"urn:uuid:{number}", **made}


def packages(lock: str) -> list[tuple[str, str, str, list[str]]]:
    """Name, version, marker and hashes of every pinned package."""
    found: list[tuple[str, str, str, list[str]]] = []
    for line in lock.splitlines():
        if pin := _PIN.match(line):
            found.append((pin[1], pin[2], pin[3] or "", []))
        elif given := _HASH.match(line):
            found[-1][3].append(given[1])
    if bare := [name for name, _, _, hashes in found if not hashes]:
        raise SystemExit(f"requirements/runtime.txt has no hash of {', '.join(bare)}. Run 'make lock'.")
    return found


def component(kind: str, name: str, version: str, reference: str) -> dict[str, Any]:
    return {"type": kind, "name": name, "version": version, "purl": reference, "bom-ref": reference}


def package(name: str, version: str, marker: str, hashes: list[str]) -> dict[str, Any]:
    made = component("library", name, version, f"pkg:pypi/{name.lower()}@{version}")
    if licence := licence_of(name):
        made["licenses"] = [{"license": {"name": licence}}]
    properties = [{"name": "palaver:marker", "value": marker}] if marker else []
    # CycloneDX has one hash for a component. A lock has one for each file of it, so they are properties.
    properties += [{"name": "palaver:sha256", "value": one} for one in hashes]
    return made | {"properties": properties}


def licence_of(name: str) -> str:
    """The licence that the installed package names, in one line."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:  # another platform's
        return ""
    given = about["License-Expression"] or about["License"] or ""
    classifiers = [
        one.rpartition(" :: ")[2] for one in about.get_all("Classifier") or () if one.startswith("License ::")
    ]
    return given if 0 < len(given) < 80 and "\n" not in given else "; ".join(classifiers)


def vendored() -> list[dict[str, Any]]:
    """The JavaScript libraries and the model inside the wheel."""
    found = []
    for name, pattern in VENDORED.items():
        said = re.search(pattern, (ROOT / f"src/palaver/console/vendor/{name}/{name}.js").read_text("utf-8"))
        assert said, name
        found.append(component("library", name, said[1], f"pkg:npm/{name}@{said[1]}"))
    model = ROOT / "src/palaver/search/vectors/minilm.onnx"
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    about = {"type": "machine-learning-model", "name": model.name, "bom-ref": model.name}
    about["description"] = "all-MiniLM-L6-v2 (Apache-2.0), tuned"
    return [*found, about | {"hashes": [{"alg": "SHA-256", "content": digest}]}]


def direct_dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = [re.match(r"[A-Za-z0-9._-]+", one) for one in project["dependencies"]]
    return [name[0].lower() for name in names if name]


def time_of_commit() -> str:
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if not seconds:
        done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
        seconds = done.stdout.strip() or "1577836800"
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    main(*sys.argv[1:])
