"""A ChatGPT export of any size, as the product writes them: for measuring imports.

    python tests/bench/exports.py /tmp/export.json --megabytes 2000

Questions are short and answers long, about 660 characters on the average; every tenth answer was regenerated, and each
node carries the metadata a real one has. The same on every run.
"""

from __future__ import annotations

import argparse
import random
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

sys.path.insert(0, str(Path(__file__).parent))

from measure import corpus

BEGAN = 1_640_995_200.0  # 2022
SENTENCES = 40_000


def conversations(seed: int = 11) -> Iterator[dict[str, Any]]:
    """Without end, each a tree with one branch that was shown last."""
    dice = random.Random(seed)
    sentences = [f"{text[:1].upper()}{text[1:]}." for text in corpus(SENTENCES)]
    at = BEGAN
    while True:
        at += dice.uniform(60, 900)
        yield _conversation(dice, sentences, at)


def _conversation(dice: random.Random, sentences: list[str], at: float) -> dict[str, Any]:
    root = _id(dice)
    mapping: dict[str, Any] = {root: {"id": root, "message": None, "parent": None, "children": []}}
    last, began = root, at
    for turn in range(dice.randint(1, 20)):
        last = _add(mapping, last, _message(dice, "user", dice.choices(sentences, k=dice.randint(1, 2)), at))
        at += dice.uniform(1, 60)
        if turn and dice.random() < 0.1:
            _add(mapping, last, _message(dice, "assistant", dice.choices(sentences, k=3), at))
        last = _add(mapping, last, _message(dice, "assistant", dice.choices(sentences, k=dice.randint(1, 8)), at))
        at += dice.uniform(5, 600)
    id = _id(dice)
    return {
        "title": " ".join(dice.choice(sentences).split()[:6]), "create_time": began, "update_time": at,
        "mapping": mapping, "moderation_results": [], "current_node": last, "plugin_ids": None, "conversation_id": id,
        "conversation_template_id": None, "gizmo_id": None, "is_archived": False, "safe_urls": [],
        "default_model_slug": "gpt-4o", "id": id,
    }  # fmt: skip


def _add(mapping: dict[str, Any], parent: str, message: dict[str, Any]) -> str:
    id: str = message["id"]
    mapping[id] = {"id": id, "message": message, "parent": parent, "children": []}
    mapping[parent]["children"].append(id)
    return id


def _message(dice: random.Random, role: str, parts: list[str], at: float) -> dict[str, Any]:
    return {
        "id": _id(dice), "author": {"role": role, "name": None, "metadata": {}}, "create_time": at, "update_time": None,
        "content": {"content_type": "text", "parts": [" ".join(parts)]}, "status": "finished_successfully",
        "end_turn": True, "weight": 1.0, "recipient": "all", "channel": None,
        "metadata": {
            "request_id": _id(dice), "message_source": None, "timestamp_": "absolute", "message_type": None,
            "model_slug": "gpt-4o", "default_model_slug": "gpt-4o", "parent_id": _id(dice), "citations": [],
            "content_references": [], "finish_details": {"type": "stop", "stop_tokens": [200002]}, "is_complete": True,
        },
    }  # fmt: skip


def _id(dice: random.Random) -> str:
    return str(uuid.UUID(int=dice.getrandbits(128), version=4))


def write(path: Path, megabytes: float) -> int:
    """Write a `conversations.json` of about that size; returns how many messages are on the branches shown last."""
    room, messages, separator = megabytes * 1e6, 0, b"["
    with path.open("wb") as file:
        for conversation in conversations():
            data = orjson.dumps(conversation)
            file.write(separator + data)
            room -= len(data)
            separator = b",\n"
            messages += _shown(conversation)
            if room <= 0:
                break
        file.write(b"]")
    return messages


def _shown(conversation: dict[str, Any]) -> int:
    mapping, at, count = conversation["mapping"], conversation["current_node"], 0
    while mapping[at]["message"]:
        at, count = mapping[at]["parent"], count + 1
    return count


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("path", type=Path)
    ask.add_argument("--megabytes", type=float, default=2000)
    given = ask.parse_args()
    print(f"{write(given.path, given.megabytes):,} messages")


if __name__ == "__main__":
    main()
