"""Numbers for Prometheus. A workspace sees its own: how busy another one is, is nobody's business."""

from __future__ import annotations

import time
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from palaver import __version__
from palaver.doors.http import rest
from palaver.doors.visit import Visit
from palaver.errors import PalaverError
from palaver.operations.bus.agents import Nobody
from palaver.operations.bus.connect import BusStatus, get_status


async def metrics(request: Request) -> Response:
    visit: Visit = request.scope["palaver.visit"]
    try:
        status = await get_status.perform(visit.here, visit.caller, Nobody())
    except PalaverError as problem:
        return rest.error(problem)
    lines = [*_stored(status, time.monotonic() - request.app.state.started), *_busy(visit)]
    return PlainTextResponse("\n".join([*lines, ""]), media_type="text/plain; version=0.0.4")


def _stored(status: BusStatus, uptime: float) -> Iterator[str]:
    yield "# TYPE palaver_info gauge"
    yield f'palaver_info{{version="{__version__}",engine="{status.engine}"}} 1'
    yield from _one("palaver_uptime_seconds", "gauge", f"{uptime:.0f}")
    yield from _one("palaver_messages", "gauge", status.messages)
    yield from _one("palaver_threads", "gauge", status.threads)
    yield from _one("palaver_agents_online", "gauge", status.agents_online)
    yield from _one("palaver_events_total", "counter", status.last_event_id)


def _busy(visit: Visit) -> Iterator[str]:
    here = visit.here
    done, engine = dict(here.done), here.engine_stats()
    yield "# TYPE palaver_requests_total counter"
    for (kind, name, how), count in sorted(done.items()):
        if kind == "request":
            yield f'palaver_requests_total{{method="{name}",status="{how}"}} {count}'
    yield "# TYPE palaver_operations_total counter"
    for (kind, name, how), count in sorted(done.items()):
        if kind == "operation":
            yield f'palaver_operations_total{{operation="{name}",outcome="{how}"}} {count}'
    posts = done.get(("operation", "post_message", "done"), 0)
    searches = sum(n for (_, name, _), n in done.items() if name.startswith("search_"))
    yield from _one("palaver_posts_total", "counter", posts)
    yield from _one("palaver_searches_total", "counter", searches)
    yield from _one("palaver_listeners", "gauge", here.listeners)
    yield from _one("palaver_writer_queue", "gauge", engine.waiting)
    yield "# TYPE palaver_commit_seconds summary"
    yield f"palaver_commit_seconds_count {engine.commits}"
    yield f"palaver_commit_seconds_sum {engine.commit_seconds:.6f}"


def _one(name: str, kind: str, value: object) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    yield f"{name} {value}"
