"""Makes the vectors of passages in the background, with the model of PALAVER_MODEL."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from palaver.errors import Unavailable
from palaver.search.vectors import encoders
from palaver.search.vectors.encoders import WORDS, CannotEncode, Encoder
from palaver.settings import Settings
from palaver.store.engines.database import Reader
from palaver.store.search import vectors
from palaver.store.workspaces import Workspace

TOGETHER = 16
"""Passages whose vectors are written in one transaction."""
BATCH_SECONDS = 60.0
PAUSE_SECONDS = 30.0
"""How long a model that failed is not asked again."""
WORTH_TELLING = 100
"""The number of passages without vectors that is worth a line in the log."""

log = logging.getLogger("palaver")


@dataclass(frozen=True, slots=True)
class ModelProgress:
    """How many passages have a vector of the configured model."""

    name: str
    passages: int
    done: int


def is_set(settings: Settings) -> bool:
    """Whether an embedding model is configured."""
    return settings.model != WORDS


def encoder_of(settings: Settings) -> Encoder | None:
    return encoders.encoder(settings.model, settings.model_url, settings.model_key)


def progress_of(read: Reader) -> ModelProgress | None:
    """None if no model is configured."""
    name = read.settings.model
    if name == WORDS:
        return None
    counts = vectors.counts(read, encoders.stored_name(name))
    return ModelProgress(name, counts.passages, counts.vectors)


async def catch_up(here: Workspace, told: Callable[[int], None] = lambda more: None) -> int:
    """Compute the missing vectors in small batches, and return how many were made."""
    encoder, model, after, made = encoder_of(here.settings), encoders.stored_name(here.settings.model), -1, 0
    if encoder is None:
        return 0
    while some := await here.read(lambda read: vectors.missing(read, model, after, TOGETHER)):  # noqa: B023
        rows = await asyncio.to_thread(encoder.encode, [one.text for one in some], BATCH_SECONDS)
        pairs = list(zip(some, encoders.packed(rows), strict=True))
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
        model, name = encoders.stored_name(here.settings.model), here.name
        if model == WORDS or time.monotonic() < self._pause_until:
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
