"""Makes the vectors of passages in the background, with the model of PALAVER_MODEL.

What a search found comes first, then typed text before answers, and new text before old.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

from palaver.errors import PalaverError, Unavailable
from palaver.search.vectors import encoders, nearest
from palaver.search.vectors.encoders import WORDS, CannotEncode
from palaver.search.vectors.worker import VectorWorker
from palaver.settings import Settings
from palaver.store.engines.database import Change, Dialect, Reader
from palaver.store.search import vectors
from palaver.store.search.vectors import Missing, PassageToEmbed
from palaver.store.workspaces import Workspace

TOGETHER = 16
"""Passages whose vectors are made together and written in one transaction."""
BATCH_SECONDS = 60.0
"""How long an endpoint may take."""
WORKER_SECONDS = 600.0
"""How long the process may take for a batch. It gets little time while the machine is busy."""
PAUSE_SECONDS = 30.0
"""How long a model that failed is not asked again."""
LOOK_SECONDS = 60.0
"""How often a workspace is looked at in which this process has written nothing. Others may have."""
LEASE_SECONDS = 120.0
"""How long a process may work on a workspace without renewing its lease. A batch rarely takes so long. If it does,
another process may make the same vectors, which does no harm."""
OTHERS_SECONDS = 10.0
"""How long to wait while another process has the lease."""
MOST_WAITING = 20_000
"""Passages without vectors that are known at a time. If there are more, all are looked at again when these are done."""
SETTLE_SECONDS = 60.0
"""Ids are looked at again after this time: on PostgreSQL a transaction may commit after another with higher ids."""
AGAIN_SECONDS = 3_600.0
"""How often all passages are looked at, for those that are not noticed otherwise, such as one with a reused id."""
TELL_SECONDS = 300.0
"""How often the log says how far it is."""
WORTH_TELLING = 100
"""The number of passages without vectors that is worth a line in the log."""
COUNT_SHARE = 0.02
"""The part of the time that may be spent on counting."""

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


def problem_of(settings: Settings) -> str | None:
    """Why the model cannot be used. Only the shipped one makes a vector to find out: others may need the network."""
    try:
        encoder = encoders.encoder(settings.model, settings.model_url, settings.model_key)
        if encoder and settings.model == "minilm":
            encoder.encode(["text"], BATCH_SECONDS)
    except CannotEncode as problem:
        return str(problem)
    return None


_counted: WeakKeyDictionary[Dialect, tuple[float, ModelProgress]] = WeakKeyDictionary()
"""The last count of each database, and until when it is used."""


def progress_of(read: Reader) -> ModelProgress | None:
    """None if no model is configured. Where counting takes long, the numbers may be some seconds old."""
    name, database, began = read.settings.model, read.connection.dialect, time.monotonic()
    if name == WORDS:
        return None
    until, known = _counted.get(database, (0.0, None))
    if known is not None and began < until and known.name == name:
        return known
    counts = vectors.counts(read, encoders.stored_name(name))
    ended = time.monotonic()
    found = ModelProgress(name, counts.passages, min(counts.vectors, counts.passages))
    _counted[database] = ended + (ended - began) / COUNT_SHARE, found
    return found


class Backlog:
    """The passages of a workspace that need vectors. Call `look` and then `next`, again and again.

    New passages have higher ids than those before.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._waiting: list[PassageToEmbed] = []
        """The next one comes last."""
        self._has_more = True
        """There may be others, in the whole workspace."""
        self._given_back: list[int] = []
        # All ids up to `settled` are final; those up to `settling` will be, SETTLE_SECONDS after `settling_since`.
        self._read_to = self._settled = self._settling = vectors.lowest_ids()
        self._settling_since = self._all_since = 0.0
        self.not_wanted: list[int] = []
        """Passages that have changed and get no vector. Their rows can be removed."""

    @property
    def is_empty(self) -> bool:
        """Whether all passages that were noted have been given out."""
        return not (self._waiting or self._given_back or self._has_more)

    def look(self, read: Reader) -> None:
        """Note passages that were added since the last look."""
        now, after, highest = time.monotonic(), self._read_to, vectors.highest_ids(read)
        if not self._waiting and (self._has_more or now - self._all_since > AGAIN_SECONDS):
            after, self._has_more, self._all_since = vectors.lowest_ids(), False, now
            self._settled, self._settling, self._settling_since = highest, highest, now
        elif now - self._settling_since > SETTLE_SECONDS:
            after = self._settled
            self._settled, self._settling, self._settling_since = self._settling, highest, now
        self._read_to = highest
        new = set[PassageToEmbed]()
        for low, high in zip(after, highest, strict=True):
            if low < high:
                new.update(vectors.candidates(read, self._model, low, high, MOST_WAITING))
        if new:
            self._waiting = sorted(new.union(self._waiting))
        if len(self._waiting) >= MOST_WAITING:
            self._waiting, self._has_more = self._waiting[-MOST_WAITING:], True

    def next(self, read: Reader, limit: int) -> list[Missing]:
        """The passages whose vectors are made next. If there are none but the backlog is not empty, call it again."""
        changed = vectors.stale(read, limit)
        self.not_wanted = [one.id for one in changed if not one.is_wanted]
        found = [Missing(one.id, one.text) for one in changed if one.is_wanted]
        count = max(0, limit - len(found) - len(self._given_back))
        soon = nearest.to_make_soon(read, count)
        count -= len(soon)
        following, self._waiting = self._waiting[::-1][:count], self._waiting[: len(self._waiting) - count]
        ids, self._given_back = [*self._given_back, *soon, *(one.id for one in following)], []
        known = {one.id for one in found}
        return found + vectors.missing(read, self._model, [id for id in dict.fromkeys(ids) if id not in known])

    def give_back(self, passages: Sequence[Missing]) -> None:
        """Keep passages whose vectors could not be made. They are the next ones again."""
        self._given_back = [one.id for one in passages]


class _Work:
    """The work in one workspace, batch by batch."""

    def __init__(self, here: Workspace, make: Callable[[Sequence[str]], list[bytes]]) -> None:
        # The workspace itself is not kept, because this is its value in a dictionary with weak keys.
        self._make, self._model = make, encoders.stored_name(here.settings.model)
        self.backlog = Backlog(self._model)
        self.lease: int | None = None
        self.commits = -1
        """The number of commits of this process at the last look."""
        self.look_at = self.wait_until = self.tell_at = 0.0
        """When to look next if this process commits nothing, when to try again, and when to tell again."""
        self.is_told = False
        """Whether the log says that vectors are being made."""

    async def batch(self, here: Workspace) -> int | None:
        """Make the next vectors and return their number; 0 if there may be more. None if another process has the
        lease."""

        def look(read: Reader) -> list[Missing]:
            self.backlog.look(read)
            return self.backlog.next(read, TOGETHER)

        try:
            some = await here.read(look)
        except BaseException:
            self.backlog = Backlog(self._model)  # it may have given out passages that did not arrive
            raise
        if not some and not self.backlog.not_wanted:
            return 0
        if self.lease is None:
            self.lease = await here.change(lambda change: vectors.take_lease(change, LEASE_SECONDS))
        if self.lease is None:
            self.backlog.give_back(some)
            return None
        try:
            rows = await asyncio.to_thread(self._make, [one.text for one in some]) if some else []
            self.lease = await here.change(lambda change: self._put(change, some, rows))
        except BaseException:
            self.backlog.give_back(some)
            raise
        return len(some)

    def _put(self, change: Change, some: Sequence[Missing], rows: Sequence[bytes]) -> int | None:
        assert self.lease is not None
        vectors.put(change, self._model, zip(some, rows, strict=True))
        vectors.remove(change, self.backlog.not_wanted)
        if not self.backlog.is_empty:
            return vectors.renew_lease(change, self.lease, LEASE_SECONDS)
        vectors.end_lease(change, self.lease)
        return None

    async def end(self, here: Workspace) -> None:
        """Give the lease back."""
        lease, self.lease = self.lease, None
        if lease is not None:
            with suppress(PalaverError):
                await here.change(lambda change: vectors.end_lease(change, lease))


async def make_all(here: Workspace, told: Callable[[int], None] = lambda more: None) -> int:
    """Make all missing vectors in this process, for a caller that waits, and return how many were made."""
    settings = here.settings
    if not is_set(settings):
        return 0
    work, made = _Work(here, partial(_encode, settings, seconds=BATCH_SECONDS)), 0
    try:
        while (count := await work.batch(here)) or not work.backlog.is_empty:
            if count is None:
                raise Unavailable(
                    "Another process makes vectors in this workspace. 'palaver status' shows how far it is."
                )
            made += count
            told(count)
    except CannotEncode as problem:
        raise Unavailable(f"The vectors could not be made: {problem}. Vectors that were made are kept.") from None
    finally:
        await work.end(here)
    return made


def _encode(settings: Settings, texts: Sequence[str], *, seconds: float) -> list[bytes]:
    encoder = encoders.encoder(settings.model, settings.model_url, settings.model_key, is_quick=True)
    assert encoder is not None
    return encoders.packed(encoder.encode(texts, seconds))


class Embedding:
    """The background task of one server. Local models run in a process of their own."""

    def __init__(self, settings: Settings) -> None:
        is_local = encoders.is_local(settings.model) and bool(sys.executable)
        self.worker = VectorWorker(settings.model) if is_local else None
        self._make = (
            partial(self.worker.vectors, seconds=WORKER_SECONDS)
            if self.worker
            else partial(_encode, settings, seconds=BATCH_SECONDS)
        )
        self._works: WeakKeyDictionary[Workspace, _Work] = WeakKeyDictionary()
        self._problem, self._pause_until = "", 0.0

    async def go_over(self, here: Workspace) -> bool:
        """Make some vectors in a workspace. Returns whether there are more to make."""
        work = self._works.get(here)
        if work is None:
            work = self._works[here] = _Work(here, self._make)
        now, commits = time.monotonic(), here.engine.stats().commits
        if now < max(self._pause_until, work.wait_until):
            return False
        if work.backlog.is_empty and commits == work.commits and now < work.look_at:
            return False
        work.commits, work.look_at = commits, now + LOOK_SECONDS
        try:
            made = await work.batch(here)
        except CannotEncode as problem:
            await work.end(here)
            self._pause_until = time.monotonic() + PAUSE_SECONDS
            if str(problem) != self._problem:  # once, not at every try
                log.warning("no vectors are made for now, searches use words alone for new texts: %s", problem)
            self._problem = str(problem)
            return False
        if made is None:
            work.wait_until = now + OTHERS_SECONDS
            return False
        if made:
            self._problem = ""
        is_done = work.backlog.is_empty and made < TOGETHER
        if is_done:
            await work.end(here)
        await self._tell(here, work, now, is_done=is_done)
        return not is_done

    async def _tell(self, here: Workspace, work: _Work, now: float, *, is_done: bool) -> None:
        """Say in the log how far it is, if there is much to do."""
        if (is_done and not work.is_told) or (not is_done and now < work.tell_at):
            return
        known = await here.read(progress_of)
        if known and (work.is_told or known.passages - known.done >= WORTH_TELLING):
            log.info("vectors in workspace %s: %d of %d passages have one", here.name, known.done, known.passages)
            work.is_told = not is_done
        work.tell_at = now + TELL_SECONDS

    async def stop_idle_worker(self) -> None:
        if self.worker and self.worker.is_idle:
            await asyncio.to_thread(self.worker.stop)

    async def close(self) -> None:
        """End the process, and give the leases back."""
        if self.worker:
            await asyncio.to_thread(self.worker.close)
        for here, work in list(self._works.items()):
            await work.end(here)
