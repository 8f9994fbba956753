"""Connected applications of a workspace: programs that people let in with OAuth."""

from __future__ import annotations

from dataclasses import dataclass

from palaver.model import visibility
from palaver.model.admin.audit import signature
from palaver.model.admin.oauth import Application
from palaver.model.people import Caller
from palaver.model.requests import Id, NoArguments, Request
from palaver.operations.admin.tokens import keyring_of
from palaver.operations.operation import Route, operation
from palaver.store.workspaces import Workspace


@operation(Route("GET", "/api/applications"))
async def list_applications(workspace: Workspace, caller: Caller, request: NoArguments) -> list[Application]:
    """List the applications that you let in with OAuth. Admins see those of everybody in the workspace."""
    visibility.must_be_person(caller)
    person = _only_of(caller)
    return [one for one in await keyring_of(workspace).applications() if person in (None, one.person)]


class RevokeApplication(Request):
    application_id: Id
    """Id of the application, as listed."""


@dataclass(frozen=True, slots=True)
class RevokedApplication:
    revoked: str


@operation(Route("DELETE", "/api/applications/{application_id}"))
async def revoke_application(workspace: Workspace, caller: Caller, request: RevokeApplication) -> RevokedApplication:
    """Revoke an application that you let in: its tokens and connections end at once. Admins can revoke all."""
    visibility.must_be_person(caller)
    keyring = keyring_of(workspace)
    revoked = await keyring.revoke_application(request.application_id, _only_of(caller), signature(caller))
    return RevokedApplication(revoked.id)


def _only_of(caller: Caller) -> str | None:
    """The person whose applications the caller manages; None for those of everybody."""
    return None if "admin" in caller.scopes else caller.name
