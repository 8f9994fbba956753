"""Vectors of an optional embedding model (PALAVER_MODEL), computed in the background.

The built-in word vectors are used until most of the passages that are read have a vector, and whenever the model does
not answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, median, pstdev
from typing import TYPE_CHECKING

from palaver.errors import Unavailable
from palaver.search.ranking.sentences import sentences
from palaver.search.vectors import encoders
from palaver.search.vectors.encoders import BUILTIN, CannotEncode, Encoder
from palaver.settings import Settings
from palaver.store.engines.database import Reader
from palaver.store.search import vectors
from palaver.store.workspaces import Workspace

if TYPE_CHECKING:
    from palaver.search.vectors.encoders import Array

AT_ONCE = 32
"""Sentences that are sent to a model together. A server that stops waits for at most one such batch."""
TOGETHER = 16
"""Passages whose vectors are written in one transaction."""
ANSWER_SECONDS, BATCH_SECONDS = 3.0, 60.0
PAUSE_SECONDS = 30.0
"""How long a model that failed is not asked again."""
WORTH_TELLING = 100
"""The number of passages without vectors that is worth a line in the log."""
ENOUGH = 0.9
"""The share of the passages that must have a vector before they are compared."""

LEAST_SPREAD = 0.1
"""The standard deviation to use when the built-in vectors see no difference."""

log = logging.getLogger("palaver")


@dataclass(frozen=True, slots=True)
class ModelProgress:
    """How many passages have a vector of the configured model."""

    name: str
    passages: int
    done: int


def is_set(settings: Settings) -> bool:
    """Whether an embedding model is configured."""
    return settings.model != BUILTIN


def encoder_of(settings: Settings) -> Encoder | None:
    return encoders.encoder(settings.model, settings.model_url, settings.model_key)


def progress_of(read: Reader) -> ModelProgress | None:
    """None if no model is configured."""
    name = read.settings.model
    if name == BUILTIN:
        return None
    counts = vectors.counts(read, name)
    return ModelProgress(name, counts.passages, counts.vectors)


async def catch_up(here: Workspace, told: Callable[[int], None] = lambda more: None) -> int:
    """Compute the missing vectors in small batches, and return how many were made."""
    encoder, model, after, made = encoder_of(here.settings), here.settings.model, -1, 0
    if encoder is None:
        return 0
    while some := await here.read(lambda read: vectors.missing(read, model, after, TOGETHER)):  # noqa: B023
        cut = [sentences(one.text) for one in some]
        parts = [part for own in cut for part in own]
        rows: list[Array] = []
        for at in range(0, len(parts), AT_ONCE):
            rows.append(await asyncio.to_thread(encoder.encode, parts[at : at + AT_ONCE], BATCH_SECONDS))
        pairs = list(zip(some, encoders.packed(rows, [len(own) for own in cut]), strict=True))
        await here.change(lambda change: vectors.put(change, model, pairs))  # noqa: B023
        after, made = some[-1].id, made + len(some)
        told(len(some))
    return made


async def make_all(here: Workspace, told: Callable[[int], None]) -> int:
    """Compute all missing vectors for a caller that waits, and raise an error that says why it failed."""
    try:
        return await catch_up(here, told)
    except CannotEncode as problem:
        raise Unavailable(f"The vectors could not be made: {problem}. Vectors that were made are kept.") from None


class Embedding:
    """The background task of one server. It skips workspaces where nothing was written since the last round."""

    def __init__(self) -> None:
        self._done: dict[str, vectors.Counts] = {}
        self._problem, self._pause_until = "", 0.0

    async def go_over(self, here: Workspace) -> None:
        model, name = here.settings.model, here.name
        if model == BUILTIN or time.monotonic() < self._pause_until:
            return
        before = await here.read(lambda read: vectors.counts(read, model))
        if before == self._done.get(name):
            return
        if many := before.passages - before.vectors >= WORTH_TELLING:
            log.info(
                "%s makes vectors in %s: %d of %d passages have theirs", model, name, before.vectors, before.passages
            )
        try:
            await catch_up(here)
        except CannotEncode as problem:
            self._pause_until = time.monotonic() + PAUSE_SECONDS
            if str(problem) != self._problem:  # once, not at every round
                log.warning("vectors of %s are behind, the model inside serves: %s", name, problem)
            self._problem = str(problem)
            return
        self._done[name] = after = await here.read(lambda read: vectors.counts(read, model))
        if many or self._problem:
            log.info("%s has made the vectors in %s: %d of %d", model, name, after.vectors, after.passages)
        self._problem = ""


# Answering questions

_failed_at: dict[str, float] = {}


@lru_cache(maxsize=512)
def _question(settings: tuple[str, str, str], text: str) -> Array:
    encoder = encoders.encoder(*settings)
    assert encoder is not None
    found: Array = encoder.encode([text], ANSWER_SECONDS)[0]
    return found


def similarity(read: Reader, question: str, passage_ids: Sequence[int]) -> list[float] | None:
    """The similarity of each passage to the question; None if the model has too few vectors or does not answer."""
    settings = read.settings
    if settings.model == BUILTIN or time.monotonic() - _failed_at.get(settings.model, -PAUSE_SECONDS) < PAUSE_SECONDS:
        return None
    known = vectors.of(read, settings.model, passage_ids)
    if not known or len(known) < ENOUGH * len(passage_ids):
        return None
    try:
        asked = _question((settings.model, settings.model_url, settings.model_key), question)
        told = dict(zip(known, encoders.likeness(asked, list(known.values())), strict=True))
    except (CannotEncode, ValueError) as problem:
        _failed_at[settings.model] = time.monotonic()
        log.warning("the model %s does not answer, the one inside serves: %s", settings.model, problem)
        return None
    usual = median(told.values())
    return [told.get(id, usual) for id in passage_ids]


def rescale(values: Sequence[float], target: Sequence[float]) -> list[float]:
    """Give values the mean and spread of `target`, because the weights were learned for that range."""
    spread = pstdev(values)
    if not spread:
        return list(target)
    middle, factor = fmean(values), max(pstdev(target), LEAST_SPREAD) / spread
    return [fmean(target) + (value - middle) * factor for value in values]
