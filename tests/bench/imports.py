"""How quickly a ChatGPT export is imported, and in how much memory: `palaver import`, as users run it.

    python tests/bench/imports.py --megabytes 2000 [--postgres URL]

The export is written to a temporary folder first (see exports.py) and removed afterwards.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent))

import exports

ENTRY = "from palaver.doors.cli.main import main; main()"


def run(export: Path, home: Path, messages: int, url: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
    environment["PALAVER_HOME"] = str(home)
    if url:
        environment["PALAVER_DATABASE_URL"] = url
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", ENTRY, "import", str(export)], env=environment)
    peak = Peak(process.pid)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    peak.join()
    cpu = used.ru_utime + used.ru_stime
    if status:
        raise SystemExit(f"the import ended with {status}")
    print(
        f"{messages:,} messages, {export.stat().st_size / 1e6:,.0f} MB: {seconds:.1f} s, {messages / seconds:,.0f} messages/s; "
        f"{cpu:.1f} s of processor time, {cpu / messages * 1e6:.0f} µs a message; "
        f"at most {peak.megabytes:.0f} MB resident; {_size(home) / 1e6:,.0f} MB on disk",
        flush=True,
    )


class Peak(threading.Thread):
    """The most memory a process and its children had, looked at twice a second; shared pages count once."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.megabytes, self._process = 0.0, psutil.Process(pid)
        self.start()

    def run(self) -> None:
        try:
            while self._process.status() != psutil.STATUS_ZOMBIE:
                family = [self._process, *self._process.children(recursive=True)]
                used = sum(one.memory_full_info().pss for one in family) / 2**20
                self.megabytes = max(self.megabytes, used)
                time.sleep(0.5)
        except psutil.Error:
            pass


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--megabytes", type=float, default=200)
    ask.add_argument("--postgres", metavar="URL")
    ask.add_argument("--again", action="store_true", help="import the same export a second time")
    ask.add_argument("--keep", type=Path, help="a folder for the data, kept afterwards")
    given = ask.parse_args()
    with tempfile.TemporaryDirectory(prefix="palaver-imports-") as folder:
        export, home = Path(folder, "conversations.json"), given.keep or Path(folder, "home")
        home.mkdir(parents=True, exist_ok=True)
        messages = exports.write(export, given.megabytes)
        for _ in range(2 if given.again else 1):
            run(export, home, messages, given.postgres)


if __name__ == "__main__":
    main()
