"""Completion of operators in a search box."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from palaver.model.people import Caller
from palaver.model.requests import Request, clamp
from palaver.operations.operation import Route, operation
from palaver.search.operators.completions import Completion, complete
from palaver.store.engines.database import SearchReader
from palaver.text.operators import OperatorName


class CompleteOperator(Request):
    operator: OperatorName
    """from, in, source, project, before, after or has."""
    text: Annotated[str, Field(max_length=200)] = ""
    """The beginning of the value."""
    limit: Annotated[int, clamp(1, 50)] = 10
    """At most this many values, 1 to 50."""


@operation(Route("GET", "/api/knowledge/complete"))
def complete_operator(read: SearchReader, caller: Caller, request: CompleteOperator) -> list[Completion]:
    """List values of a search operator that begin with a text: authors, conversations, projects, sources."""
    return complete(read, caller, request.operator, request.text, request.limit)
