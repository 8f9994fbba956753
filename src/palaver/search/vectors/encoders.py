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

from palaver.search.vectors.onnx_models import VERSION, MiniLM, OnnxModel, checksum

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

WORDS = "words"
LONGEST_TEXT = 2_000
"""Characters of a text that are sent to a model. Most models read no more."""


class CannotEncode(Exception):
    """The model cannot be used now. The message says why, and contains no secret."""


class Encoder(Protocol):
    def encode(self, texts: Sequence[str], seconds: float) -> Array:
        """One row for each text. It waits at most `seconds`, if it can."""


@lru_cache(maxsize=8)
def encoder(model: str, url: str, key: str, *, is_quick: bool = False) -> Encoder | None:
    """The model of `PALAVER_MODEL`; None if only the word vectors are used."""
    kind, _, name = model.partition(":")
    match kind:
        case "words":
            return None
        case "openai" if name:
            return _EmbeddingService(name, url, key)
        case "fastembed" if name:
            missing = "PALAVER_MODEL=fastembed:NAME needs the package fastembed: pip install it"
            return _Local("fastembed", lambda package: _fastembed(package, name), missing)
        case "minilm":
            missing = "PALAVER_MODEL=minilm needs the package onnxruntime: pip install it, or set PALAVER_MODEL=words"
            return _Local("onnxruntime", lambda package: MiniLM(is_quick=is_quick), missing)
    if is_file(model):
        missing = "PALAVER_MODEL with a file needs the package onnxruntime: pip install it"
        return _Local("onnxruntime", lambda package: OnnxModel(model, is_quick=is_quick), missing)
    raise CannotEncode("PALAVER_MODEL: say minilm, words, fastembed:NAME, openai:NAME or the path of an ONNX file.")


def is_local(model: str) -> bool:
    """Whether the model runs on this machine."""
    return model.partition(":")[0] in ("minilm", "fastembed") or is_file(model)


def is_file(model: str) -> bool:
    """Whether it is the path of a model, or of its folder."""
    return Path(model).expanduser().is_absolute()


def stored_name(model: str) -> str:
    """The name under which vectors are stored. Vectors of other names are replaced."""
    if is_file(model):
        return f"onnx {checksum(model)}"
    return f"minilm {VERSION}" if model == "minilm" else model


class _EmbeddingService:
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
        try:
            import numpy as np

            with self._loading:
                self._run = self._run or self._load(importlib.import_module(self._package))
        except Exception as problem:  # a damaged or unfitting installation raises any error
            raise CannotEncode(f"the package {self._package} or its model cannot be loaded: {problem}") from None
        found: Array = np.asarray(self._run([text[:LONGEST_TEXT] for text in texts]), np.float32)
        return found


def _fastembed(package: Any, name: str) -> Any:
    model = package.TextEmbedding(model_name=name)
    return lambda texts: list(model.embed(texts))


def packed(rows: Array) -> list[bytes]:
    """Each vector as bytes."""
    import numpy as np

    largest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-9)
    return [row.tobytes() for row in np.round(rows / largest * 127).astype(np.int8)]


def similarity(question: Array, vectors: Sequence[bytes]) -> list[float]:
    """The cosine of the question and each vector."""
    import numpy as np

    if not vectors:
        return []
    rows = np.frombuffer(b"".join(vectors), np.int8).reshape(-1, len(question)).astype(np.float32)
    lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)) * float(np.linalg.norm(question)), 1e-9)
    found: list[float] = (rows @ question / lengths).tolist()
    return found
