"""What is kept out of palaver when turns are recorded: private projects, private parts, and what was forgotten."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from pydantic import AfterValidator, Field

from palaver.model.privacy import PrivacyRules
from palaver.model.requests import Text
from palaver.model.sessions import Turn
from palaver.settings import Settings
from palaver.store.sessions.forgotten import turn_key
from palaver.store.workspaces import Workspace
from palaver.text.private_parts import without_private_parts

TurnText = Annotated[Text, Field(min_length=1), AfterValidator(without_private_parts)]
"""The text of a turn, without its private parts."""


def privacy_rules(settings: Settings, *, is_here: bool | None = None) -> PrivacyRules:
    """The rules of this machine. A server that others can reach does not look into the folders that they name."""
    return PrivacyRules(settings.data, settings.private, settings.is_loopback if is_here is None else is_here)


def kept_in(workspace: Workspace, turns: Collection[Turn]) -> list[Turn]:
    """The turns that may be recorded: not those of private projects, and none that was forgotten."""
    rules, forgotten = privacy_rules(workspace.settings), workspace.forgotten
    private = {project for project in {turn.project for turn in turns} if rules.why(project)}
    return [
        turn for turn in turns if turn.project not in private and not forgotten.has(turn_key(turn.session_id, turn.id))
    ]
