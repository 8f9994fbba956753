"""The doorbell: an idle session of a coding agent waits here until a message to its agent wakes it."""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import Annotated

from palaver.errors import Unavailable
from palaver.model.events import Event, agent_online, agent_session
from palaver.model.ids import new_id
from palaver.model.people import Agent, Caller
from palaver.model.requests import Ids, clamp
from palaver.model.times import now
from palaver.operations.catchup.hooks import HookAnswer, HookReport, agent_of_session, caller_of, messages_text, unseen
from palaver.operations.catchup.ringing import LOOK_AGAIN, ring_of
from palaver.operations.identity import active_since
from palaver.operations.operation import Route, operation
from palaver.store.bus import agents, deliveries, read_marks
from palaver.store.bus.deliveries import HookSession, Way
from palaver.store.bus.feed import FeedClosed
from palaver.store.bus.read_marks import HOOK_TIME, reader_of
from palaver.store.engines.database import Change, Reader
from palaver.store.workspaces import Workspace
from palaver.text.hook_text import WOKEN

WAKE_TOKENS = 150
MOST = 100
"""At most this many messages are looked at for one that may wake."""
FEW = 3
LEFT = " You two may wake each other {} more times here. Then a person must write."
SHAPES = ((3, 200), (3, 100), (2, 100), (1, 400), (1, 200), (1, 100), (1, 20))
CALLS = ("msg.receipt", "agent.session", "agent.offline")
"""The events after which a session may be called, or has ended."""


class WaitForWake(HookReport):
    wait_s: Annotated[int, clamp(0, 86_400)] | None = None
    """How long to wait in this call, in seconds. Default: without a limit."""
    starts: bool = False
    """The text starts a program, so it is returned only while no session of the agent runs. A new call means that the
    program has ended."""
    failed: Ids | None = None
    """The deliveries whose program failed. Their messages start no program again."""


@operation(Route("POST", "/api/hooks/wait", ends_with_client=True))
async def wait_for_wake(workspace: Workspace, caller: Caller, request: WaitForWake) -> HookAnswer:
    """Wait in a session of a coding agent for a message to its agent. Returns the text that wakes the session while it
    is idle, or no text: with the agent after `wait_s`, without it when the session has ended or a newer call waits. A
    session that confirms a wake in its next call, instead of an event, is woken by the next message, too."""
    until = inf if request.wait_s is None else monotonic() + request.wait_s
    caller, waiter = caller_of(caller, request), new_id()
    way: Way = "spawn" if request.starts else "wake"

    def begin(change: Change) -> tuple[Agent, HookSession]:
        deliveries.confirm(change, request.session, request.confirmed or ())
        agent, known = agent_of_session(change, caller, request, "spawn" if request.starts else "wait")
        session = HookSession(request.session, reader_of(caller, agent))
        failed = deliveries.fail(change, session, request.failed or ())
        if request.starts:
            deliveries.go_on(change, session)
        offered = deliveries.unconfirmed(change, session)
        is_lost = offered is not None and offered.way == way
        pauses = known.state == "woken" and (is_lost or request.confirmed)  # a channel confirms here: it has no stop
        state = "idle" if pauses or request.starts else known.state
        announced = max(known.announced, failed)
        agents.set_hook_connection(change, known, waiter=waiter, state=state, announced=announced)
        if known.waiter:
            change.tell(agent_session(agent))
        return agent, session

    def look(read: Reader) -> float | None:
        """The seconds until the session may be woken; None if there is nothing to wait for any more."""
        known = agents.hook_connection(read, request.session)
        if known is None or known.waiter != waiter:
            return None
        if request.starts and agents.is_at_work(read, agent.id, active_since()):
            return LOOK_AGAIN
        offered = deliveries.unconfirmed(read, session) if known.state != "working" else None
        if offered and offered.way != way and abs(now() - offered.at) < HOOK_TIME:
            return HOOK_TIME.total_seconds()
        if known.state != "idle" and not offered:  # a stop whose text was never written is a stop
            return inf
        found = read_marks.unseen_mentions(read, session.reader, session.key["session"], MOST, known.announced)
        return min((ring_of(read, session.reader, one).seconds for one in found), default=inf)

    def wake(change: Change) -> HookAnswer:
        # This locks the agent: of two sessions, one gets a message.
        if not request.starts and agents.touch(change, agent, "wake"):
            change.tell(agent_online(agent))
        known = agents.hook_connection(change, request.session)
        found = unseen(change, caller, session, known.announced, MOST) if known and look(change) == 0 else []
        rings = [ring_of(change, session.reader, one) for one in found]
        found = [one for one, ring in zip(found, rings, strict=True) if ring.seconds == 0]
        if known is None or not found:
            return HookAnswer(agent.slug, "")
        left = min((ring.turns_left for ring in rings if ring.turns_left is not None), default=None)
        first = found[0].passage_id
        count, last = read_marks.unseen_after(change, session.reader, first - 1)
        heading = WOKEN + (LEFT.format(left) if left is not None and left <= FEW else "")
        text, shown = messages_text(found, max(count, len(found)), heading, SHAPES, WAKE_TOKENS)
        context = deliveries.context_of(change, session, known.turn + 1, confirms=True)
        announced = last if count > shown else known.announced
        agents.set_hook_connection(change, known, state="woken", turn=context.turn, announced=announced)
        return HookAnswer(agent.slug, text, deliveries.offer(change, context, way, found[:shown]))

    def concerns(event: Event) -> bool:
        return event.type == "reset" or (event.type in CALLS and agent.id.encode() in event.payload)

    agent, session = await workspace.change(begin)
    try:
        async with workspace.feed() as listener:
            while (seconds := await workspace.read(look)) is not None:
                if seconds == 0 and (answer := await workspace.change(wake)).text:
                    return answer
                if monotonic() >= until:
                    return HookAnswer(agent.slug, "")
                await listener.wait_for(concerns, min(seconds or inf, until - monotonic()))
            return HookAnswer(None, "")
    except FeedClosed:
        raise Unavailable("The server is stopping. Wait again in a moment.") from None
    finally:
        await workspace.store_soon(lambda change: agents.end_waiting(change, waiter), seconds=0)
