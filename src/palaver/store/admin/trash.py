"""Empties the trash: deletes items for good, scrubs their events, and removes unused images."""

from __future__ import annotations

import re
import time
from pathlib import Path

import orjson

from palaver.model.events import encode
from palaver.store.engines.database import Change, Reader
from palaver.store.library import documents
from palaver.synced_files import sync_folder

AT_ONCE = 100
"""How many documents one call of `empty_trash` deletes."""
YOUNG_SECONDS = 24 * 3600
"""Newer images are kept, because an image is uploaded before the message that shows it."""
_IMAGE = re.compile(r"/uploads/([0-9a-f]{32}\.\w+)")


def empty_trash(change: Change) -> int:
    """Delete some documents in the trash. Returns their number; call it until that is 0."""
    rows = change.all("trash", limit=AT_ONCE)
    for row in rows:
        for passage in change.all("passage_ids", document_id=row["id"]):
            documents.remove_passage(change, passage["id"])
        change.run("delete_document", id=row["id"])
    return len(rows)


def forget_events(change: Change) -> int:
    """Remove topics, summaries and reactions of deleted threads and messages from the event log. Ids stay."""
    scrubbed = 0
    for row in change.all("events_of_deleted"):
        payload = orjson.loads(row["payload"])
        about = payload.get("message_id")
        if row["type"].startswith("msg.") and change.one("has_message", id=about):
            continue
        blank = {name: "" for name in ("topic", "summary", "reaction", "agent_name") if payload.get(name)}
        if blank:
            change.run("replace_event_payload", id=row["id"], payload=encode(payload | blank).decode())
            scrubbed += 1
    return scrubbed


def images_in_use(read: Reader) -> set[str]:
    """The names of images that a text shows."""
    rows = read.all("passages_with_images")
    return {name for row in rows for name in _IMAGE.findall(f"{row['text']} {row['data']}")}


def remove_images(folder: Path, in_use: set[str]) -> int:
    """Delete images that no text shows. Returns their number."""
    old = time.time() - YOUNG_SECONDS
    unused = [path for path in folder.glob("*") if path.is_file() and path.name not in in_use]
    gone = [path for path in unused if path.stat().st_mtime < old]
    for path in gone:
        path.unlink(missing_ok=True)
    if gone:
        sync_folder(folder)
    return len(gone)
