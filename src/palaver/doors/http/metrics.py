"""Prometheus metrics of one workspace. They show nothing about other workspaces."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from palaver import __version__
from palaver.doors.authentication import Requester
from palaver.model.requests import NoArguments
from palaver.operations.admin.background_check import PARTS, SERVER_PARTS
from palaver.operations.bus.connect import get_status


async def metrics(request: Request) -> Response:
    requester: Requester = request.scope["palaver.requester"]
    here = requester.workspace
    status = await get_status.perform(here, requester.caller, NoArguments())
    done, engine = dict(here.done), here.engine.stats()
    searches = sum(count for (_, name, _), count in done.items() if name.startswith("search_"))
    model = status.model
    lines = [
        "# TYPE palaver_info gauge",
        f'palaver_info{{version="{__version__}",engine="{status.engine}"}} 1',
        *_metric("palaver_uptime_seconds", "gauge", f"{time.monotonic() - request.app.state.started:.0f}"),
        *_metric("palaver_messages", "gauge", status.messages),
        *_metric("palaver_threads", "gauge", status.threads),
        *_metric("palaver_agents_online", "gauge", status.agents_online),
        *(_metric("palaver_vectors", "gauge", model.done) if model else ()),
        *(_metric("palaver_vectors_missing", "gauge", model.passages - model.done) if model else ()),
        *_check_metrics(requester),
        *_metric("palaver_events_total", "counter", status.last_event_id),
        *_counts("palaver_requests_total", done, "request", 'method="{}",status="{}"'),
        *_counts("palaver_operations_total", done, "operation", 'operation="{}",outcome="{}"'),
        *_metric("palaver_posts_total", "counter", done.get(("operation", "post_message", "done"), 0)),
        *_metric("palaver_searches_total", "counter", searches),
        *_metric("palaver_listeners", "gauge", here.listeners),
        *_metric("palaver_writer_queue", "gauge", engine.waiting),
        "# TYPE palaver_commit_seconds summary",
        f"palaver_commit_seconds_count {engine.commits}",
        f"palaver_commit_seconds_sum {engine.commit_seconds:.6f}",
    ]
    return PlainTextResponse("\n".join([*lines, ""]), media_type="text/plain; version=0.0.4")


def _counts(metric: str, done: dict[tuple[str, str, str], int], wanted: str, labels: str) -> Iterator[str]:
    yield f"# TYPE {metric} counter"
    for (kind, name, outcome), count in sorted(done.items()):
        if kind == wanted:
            yield f"{metric}{{{labels.format(name, outcome)}}} {count}"


def _check_metrics(requester: Requester) -> Iterator[str]:
    """The background check: its findings by part, whether it runs, and when it last completed a round."""
    here, status = requester.workspace, requester.workspace.check_state.status
    counts = Counter(one.part for one in status.findings)
    yield "# TYPE palaver_check_findings gauge"
    for part in PARTS:
        if here.is_default or part not in SERVER_PARTS:
            yield f'palaver_check_findings{{part="{part}"}} {counts[part]}'
    last = status.last_round_at.timestamp() if status.last_round_at else 0
    yield from _metric("palaver_check_last_round_timestamp_seconds", "gauge", f"{last:.0f}")
    yield from _metric("palaver_check_running", "gauge", int(status.state == "checking"))


def _metric(name: str, kind: str, value: object) -> tuple[str, str]:
    return f"# TYPE {name} {kind}", f"{name} {value}"
