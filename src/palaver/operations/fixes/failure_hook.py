"""What the hook for failures gets: what ended the error before, if that is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from palaver.model.people import Caller, Session
from palaver.model.requests import NotBlank, Text
from palaver.operations.catchup.hooks import HookReport, caller_of
from palaver.operations.fixes.fixes import FixSearch
from palaver.operations.identity import find_agent
from palaver.operations.operation import Route, operation
from palaver.store.bus import agents
from palaver.store.engines.database import SearchReader

MOST_TOKENS = 150
HEADING = "palaver knows this error from an earlier session. Look at the command before you run it."


class ReportFailure(HookReport):
    error: Annotated[Text, NotBlank]
    """The output of the command or tool that failed."""


@dataclass(frozen=True, slots=True)
class FailureAnswer:
    """`text` is for the model. It is empty if nothing is known. Show the text of one `fix_id` once."""

    text: str
    fix_id: str


@operation(Route("POST", "/api/hooks/failure"))
def report_failure(read: SearchReader, caller: Caller, request: ReportFailure) -> FailureAnswer:
    """Report that a command or tool of a coding agent failed. Returns what ended the error in another session."""
    if not read.settings.sessions_index:
        return FailureAnswer("", "")
    caller = caller_of(caller, request)
    known = agents.hook_connection(read, request.session)
    agent = find_agent(read, caller, caller.client, request.session, is_at_work=True)
    agent_id = known.agent_id if known else agent.id if agent else None
    caller = replace(caller, session=Session(agent_id=agent_id))
    found = FixSearch(read, caller, request.project, without=[request.session]).fix(request.error)
    return FailureAnswer(f"{HEADING}\n{found.text}", found.fix_id) if found.is_known else FailureAnswer("", "")
