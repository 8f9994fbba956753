"""All rules for masking and ownership are in `model/visibility.py`. This test finds any other place that decides."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import palaver

SOURCE = Path(palaver.__file__).parent
RULES = "model/visibility.py"

# Files that may look at the kind of the caller or at hidden content, and why they decide nothing.
ALLOWED = {
    "operations/admin/demo.py": "posts a human-only message",
    "operations/identity.py": "decides which agent a caller is, not what it may see",
    "operations/bus/agents.py": "people who register a known slug get that agent",
    "operations/edits/editing.py": "tells an agent of the edits of others, and of those that it may see",
    "operations/bus/waiting.py": "checks whether the credentials in the call are new",
    "operations/bus/questions.py": "checks whether the credentials in the call are new",
    "operations/edits/claims.py": "checks whether the credentials in the call are new",
    "search/page.py": "explains why an agent without a name finds no sessions",
    "search/sources/filters.py": "an agent that names a session means its own",
    "search/operators.py": "an agent that writes from:me means itself",
    "search/scope.py": "passes the rules on to the index, as scopes",
    "search/open/__init__.py": "passes the rules on to the index, as scopes",
    "store/library/documents.py": "marks human-only messages in the index",
    "operations/search/bus_search.py": "passes the rules on to the index, as scopes",
    "doors/http/login.py": "shows the administration pages to admins",
    "doors/mcp/elicitation.py": "shows a question only to a client whose person may answer it",
    "doors/mcp/channel.py": "notices that the connection has another agent now",
    "doors/http/sse.py": "chooses between the two encodings of an event",
    "doors/cli/connection.py": "chooses between the two encodings of an event",
}


def decisions(source: str) -> Iterator[int]:
    """The lines that look at the kind of the caller, compare its agent, or name hidden content."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr="is_agent") | ast.Name(id="HUMAN_ONLY") | ast.Constant(value="human_only"):
                yield node.lineno
            case ast.Constant(value=str(text)) if "[human-only content" in text:
                yield node.lineno
            case ast.Compare(ast.Attribute(ast.Name("caller"), "kind")):
                yield node.lineno
            case ast.Compare(left, ops, others) if any(isinstance(op, ast.Eq | ast.NotEq) for op in ops):
                if any(isinstance(part, ast.Attribute) and part.attr == "acting_agent" for part in (left, *others)):
                    yield node.lineno


def deciding_files() -> dict[str, list[int]]:
    files = {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in SOURCE.rglob("*.py")}
    return {name: lines for name, source in files.items() if (lines := sorted(decisions(source)))}


def test_only_the_visibility_module_decides_who_sees_what():
    others = {name: lines for name, lines in deciding_files().items() if name != RULES and name not in ALLOWED}
    assert not others, f"move these rules to {RULES} and call them: {others}"


def test_the_allowed_files_still_need_to_be_allowed():
    assert set(ALLOWED) <= set(deciding_files())


@pytest.mark.parametrize(
    "line",
    [
        "if caller.is_agent: text = ''",
        "mine = row.agent_id == caller.acting_agent",
        "metadata.get('human_only')",
        "without = (HUMAN_ONLY,)",
        "caller.kind == 'agent'",
    ],
)
def test_a_rule_elsewhere_is_found(line: str):
    assert list(decisions(line)) == [1]
