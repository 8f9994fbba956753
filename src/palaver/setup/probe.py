"""Record a probe session as the hooks do, with the same credentials, find it on the server, and delete it again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, urlsplit
from uuid import uuid4

from palaver import child_process
from palaver.settings import LOOPBACK

RECORD_SECONDS = 60.0
ANSWER_SECONDS = 10.0


def probe_recording(home: Path, connection: Mapping[str, str] | None, url: str, token: str) -> str:
    """Why sessions are not recorded; "" if a probe session was recorded and found.

    `connection` has the url and token that setup or the environment name. Without it, the data of this machine is used.
    """
    session, word = str(uuid4()), f"probe{uuid4().hex}"
    typed = {"role": "user", "content": f"palaver setup --check {word}"}
    facts = {"type": "user", "sessionId": session, "uuid": str(uuid4()), "timestamp": datetime.now(UTC).isoformat()}
    env = child_process.own_environment() | {"PALAVER_HOME": str(home.absolute())}
    env |= {f"PALAVER_{name.upper()}": value for name, value in (connection or {}).items() if value}
    with TemporaryDirectory(prefix="palaver-check-") as folder:
        file = Path(folder) / f"{session}.jsonl"
        file.write_text(json.dumps(facts | {"message": typed}) + "\n", "utf-8")
        command = child_process.python("-m", "palaver", "watch", "--once", "--quiet", str(file))
        try:
            done = subprocess.run(
                command,
                env=env,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=RECORD_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"Recording a session took longer than {RECORD_SECONDS:.0f} seconds."
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"'palaver watch' ended with {done.returncode}."]
        return said[-1].removeprefix("palaver: ")
    return _find_and_delete(session, word, url, token)


def _find_and_delete(session: str, word: str, url: str, token: str) -> str:
    import httpx2

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    is_here = urlsplit(url).hostname in LOOPBACK
    try:
        with httpx2.Client(base_url=url, timeout=ANSWER_SECONDS, trust_env=not is_here, headers=headers) as client:
            answer = client.post("/api/v1/conversations/search/all", json={"query": word})
            if answer.status_code != 200:
                return f"A session was recorded, but {url} refuses to search for it (status {answer.status_code})."
            hits = answer.json()["hits"]
            if not hits:
                return f"A session was recorded, but not on the server at {url}, which does not find it."
            answer = client.delete(f"/api/v1/agents/{hits[0]['agent']}/sessions/{quote(session)}")
            return "" if answer.status_code == 200 else f"The probe session {session} could not be deleted at {url}."
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError, TypeError):
        return f"No palaver server answers at {url}."
