"""How similar passages are to a question, by the vectors of the model of PALAVER_MODEL.

Vectors are made in the background. A passage that has none yet is judged by its words alone.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from palaver.search.vectors import encoders
from palaver.search.vectors.encoders import WORDS, CannotEncode
from palaver.store.engines.database import Dialect, Reader
from palaver.store.search import vectors

if TYPE_CHECKING:
    from palaver.search.vectors.encoders import Array

ANSWER_SECONDS = 3.0
PAUSE_SECONDS = 30.0
"""How long a model that failed is not asked again."""

MOST_FOUND = 1_000
"""Passages without a vector that searches found and that are remembered in each workspace."""

log = logging.getLogger("palaver")
_found: WeakKeyDictionary[Dialect, deque[int]] = WeakKeyDictionary()
"""Passages of each open workspace that were found and have no vector; the last found ones come last."""
_failed_at: dict[str, float] = {}


@lru_cache(maxsize=512)
def _encoded(settings: tuple[str, str, str], text: str) -> Array:
    encoder = encoders.encoder(*settings)
    assert encoder is not None
    found: Array = encoder.encode([text], ANSWER_SECONDS)[0]
    return found


def question_vector(read: Reader, text: str) -> Array | None:
    """The vector of a question; None if no model is configured or it does not answer."""
    settings = read.settings
    if settings.model == WORDS or time.monotonic() - _failed_at.get(settings.model, -PAUSE_SECONDS) < PAUSE_SECONDS:
        return None
    try:
        return _encoded((settings.model, settings.model_url, settings.model_key), text)
    except CannotEncode as problem:
        _failed_at[settings.model] = time.monotonic()
        log.warning("the model %s does not answer, words alone are used: %s", settings.model, problem)
        return None


def similarity(read: Reader, question: Array, passage_ids: Sequence[int]) -> dict[int, float]:
    """The similarity of those passages that have a vector, from -1 to 1."""
    known = vectors.of(read, encoders.stored_name(read.settings.model), passage_ids)
    size = len(question)
    fitting = {id: vector for id, vector in known.items() if len(vector) == size}
    return dict(zip(fitting, encoders.similarity(question, list(fitting.values())), strict=True))


def make_soon(read: Reader, passage_ids: Sequence[int]) -> None:
    """Remember passages that were found and have no vector. Theirs are made before others, for the next question."""
    _found.setdefault(read.connection.dialect, deque(maxlen=MOST_FOUND)).extend(passage_ids)


def to_make_soon(read: Reader, limit: int) -> list[int]:
    """Take some of these passages, those that were found last."""
    waiting = _found.get(read.connection.dialect, deque[int]())
    return [waiting.pop() for _ in range(min(limit, len(waiting)))]
