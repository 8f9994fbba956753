"""A sentence model of one's own: a file `model.onnx` with its tokenizer beside it, as model hubs publish them.

The tokenizer is `tokenizer.json`, for which the package `tokenizers` must be installed, or `vocab.txt` of a BERT model
for texts in small letters. If the model gives a vector for each piece of a text, their mean is taken, or the first one
if `1_Pooling/config.json` says so.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaver.search.vectors.minilm import MOST_PIECES, Pieces, open_session

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


class OnnxModel:
    """Makes the vector of a text."""

    def __init__(self, name: str, *, is_quick: bool) -> None:
        file = file_of(name)
        session = open_session(file, is_quick=is_quick)
        self._run, self._inputs = session.run, [one.name for one in session.get_inputs()]
        self._pieces_of = _tokenizer(file.parent)
        pooling = file.parent / "1_Pooling" / "config.json"
        self._is_first = pooling.exists() and bool(json.loads(pooling.read_bytes()).get("pooling_mode_cls_token"))

    def __call__(self, texts: Sequence[str]) -> Array:
        """A row of length one for each text. Each text runs alone, so that texts do not change each other's vectors."""
        import numpy as np

        rows = []
        for text in texts:
            pieces = np.array([self._pieces_of(text)], np.int64)
            others = {"attention_mask": np.ones_like(pieces), "token_type_ids": np.zeros_like(pieces)}
            found = self._run(None, {name: others.get(name, pieces) for name in self._inputs})[0]
            rows.append(one_vector(found[0], is_first=self._is_first))
        return np.array(rows, np.float32)


def one_vector(found: Array, *, is_first: bool) -> Array:
    """The vector of a text, of length one, from what the model gives: that vector, or one for each piece."""
    import numpy as np

    if found.ndim == 2:
        found = found[0] if is_first else found.mean(0)
    row: Array = found / max(float(np.linalg.norm(found)), 1e-9)
    return row


def file_of(name: str) -> Path:
    """The file of a model that is given as a file or as its folder."""
    path = Path(name).expanduser()
    return path / "model.onnx" if path.is_dir() else path


@cache
def checksum(name: str) -> str:
    """What the vectors of a model are stored under: another file is another model, wherever it is."""
    try:
        with file_of(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError:
        return name


def _tokenizer(folder: Path) -> Callable[[str], list[int]]:
    table, vocabulary = folder / "tokenizer.json", folder / "vocab.txt"
    if table.exists() and importlib.util.find_spec("tokenizers"):
        tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(str(table))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MOST_PIECES)
        return lambda text: list(tokenizer.encode(text).ids)
    if vocabulary.exists():
        return Pieces(vocabulary.read_text("utf-8").splitlines()).of
    needed = "the package tokenizers: pip install it" if table.exists() else "tokenizer.json or vocab.txt beside it"
    raise ValueError(f"it needs {needed}")
