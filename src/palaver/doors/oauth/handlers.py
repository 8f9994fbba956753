"""The OAuth endpoints. The handlers of the MCP SDK read and check the requests; palaver knows clients and tokens.

All clients are public: they have no secret and prove with PKCE that a code is theirs. So nothing of a client is secret,
and refresh tokens are used once.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from mcp.server.auth.handlers.authorize import AuthorizationHandler, AuthorizationRequest
from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import ClientAuthenticator
from mcp.server.auth.provider import (
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import InvalidRedirectUriError, OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message

from palaver.app import App
from palaver.doors.authentication import Requester
from palaver.doors.http.addresses import address_of
from palaver.doors.http.bodies import body_of, read_body
from palaver.doors.http.rest import json_response
from palaver.doors.oauth import metadata
from palaver.doors.oauth.metadata import ALL_SCOPES, USUAL_SCOPES
from palaver.errors import Forbidden, Refused
from palaver.model.admin.oauth import EVERYTHING, AccessRequest, OAuthClient, SecretKind
from palaver.model.visibility import must_be_person
from palaver.operations.admin import oauth_clients
from palaver.operations.admin.oauth import KINDS, OAuth
from palaver.settings import LOOPBACK

LARGEST = 32 * 1024
CONSENT_PAGE = "/#/connect"
TWICE = "a parameter is given twice"
OTHER_SERVER = "resource is not an address of this server"
NO_DOCUMENT = (
    "The server could not read the metadata document of this application, or the document is not valid. If the server "
    "cannot reach the internet, its administrator should set PALAVER_OAUTH=registration."
)
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_URL = TypeAdapter(AnyUrl)


class RegisteredClient(OAuthClientInformationFull):
    """A client, with our rules for its redirect addresses and scopes."""

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        registered = [_normal(uri) for uri in self.redirect_uris or []]
        if redirect_uri is None:
            raise InvalidRedirectUriError("redirect_uri is required")
        if not any(oauth_clients.fits_redirect_uri(uri, _normal(redirect_uri)) for uri in registered):
            raise InvalidRedirectUriError("this redirect_uri is not registered for the client")
        return redirect_uri

    def validate_scope(self, requested_scope: str | None) -> list[str]:
        """The known scopes of those that are asked for. Unknown ones, such as those of other servers, are left out.
        The answer tells what was given (RFC 6749, 3.3)."""
        return [scope for scope in ALL_SCOPES if scope in (requested_scope or "").split()] or USUAL_SCOPES


def _normal(uri: AnyUrl | str) -> str:
    return str(_URL.validate_python(str(uri)))


def _registered(client: OAuthClient) -> RegisteredClient:
    return RegisteredClient(
        client_id=client.id,
        client_name=client.name,
        redirect_uris=[_URL.validate_python(uri) for uri in client.redirect_uris],
        token_endpoint_auth_method="none",
    )


class Provider:
    """What the SDK's handlers ask for. Access tokens and revocation are not here: palaver's own routes know them.

    `caller`: the address or token of the caller, where a client may be stored. `may_fetch`: read the metadata document
    of a client that is not known. `has_redirect_uri`: whether the token request repeats the redirect address. In OAuth
    2.1 it need not: there is PKCE.
    """

    def __init__(
        self, request: Request, caller: str = "", *, may_fetch: bool = False, has_redirect_uri: bool = True
    ) -> None:
        self.app: App = request.app.state.app
        self.base = metadata.base_of(request)
        self.caller, self.may_fetch, self.has_redirect_uri = caller, may_fetch, has_redirect_uri

    async def client(self, client_id: str) -> OAuthClient | None:
        if self.may_fetch and self.app.settings.oauth == "on":
            return await self.app.oauth.client(client_id, self.app.settings.fetch_hosts, self.caller)
        return await self.app.oauth.known_client(client_id)

    async def get_client(self, client_id: str) -> RegisteredClient | None:
        client = await self.client(client_id)
        return _registered(client) if client else None

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Store a client. What it asked for and does not get is changed in the answer (RFC 7591, 3.2.1)."""
        uris = oauth_clients.acceptable_redirect_uris([str(uri) for uri in client_info.redirect_uris or []])
        if not uris:
            raise RegistrationError("invalid_redirect_uri", "redirect_uris must be https, or http to this computer")
        name = oauth_clients.display_name(client_info.client_name) or "An application without a name"
        client_info.client_name, client_info.redirect_uris = name, [_URL.validate_python(uri) for uri in uris]
        client_info.token_endpoint_auth_method = "none"
        client_info.client_secret = client_info.client_secret_expires_at = None
        client_info.grant_types, client_info.response_types = ["authorization_code", "refresh_token"], ["code"]
        client_info.scope = " ".join(s for s in ALL_SCOPES if s in (client_info.scope or "").split()) or None
        await self.app.oauth.register(OAuthClient(client_info.client_id, name, uris), self.caller)

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """The consent page of the console. It gets the request again, as it was checked."""
        self.check(params.code_challenge, params.resource)
        asked = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": str(params.redirect_uri),
            "code_challenge": params.code_challenge,
            "state": params.state,
            "scope": " ".join(params.scopes or USUAL_SCOPES),
            "resource": params.resource,
        }
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        return f"{self.base}{CONSENT_PAGE}?{query}"

    def check(self, code_challenge: str, resource: str | None) -> str:
        """The resource that is asked for."""
        if not _CHALLENGE.fullmatch(code_challenge):
            raise AuthorizeError("invalid_request", "code_challenge must be a SHA-256 hash in base64url")
        if (found := metadata.resource_of(self.base, resource)) is None:
            raise AuthorizeError("invalid_target", OTHER_SERVER)
        return found

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        found = await self.app.oauth.find_unused("code", authorization_code)
        if found is None:
            return None
        return AuthorizationCode(
            code=authorization_code,
            scopes=list(found.scopes),
            expires_at=found.expires_at.timestamp(),
            client_id=found.application.client_id,
            code_challenge=found.code_challenge,
            redirect_uri=_URL.validate_python(found.redirect_uri),
            redirect_uri_provided_explicitly=self.has_redirect_uri,
        )

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        return await self._exchange("code", authorization_code.code, authorization_code.scopes)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        found = await self.app.oauth.find_unused("refresh", refresh_token)
        if found is None:
            return None
        return RefreshToken(
            token=refresh_token,
            client_id=found.application.client_id,
            scopes=list(found.scopes),
            expires_at=int(found.expires_at.timestamp()),
        )

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        return await self._exchange("refresh", refresh_token.token, scopes)

    async def _exchange(self, kind: SecretKind, secret: str, scopes: list[str]) -> OAuthToken:
        oauth = self.app.oauth
        found = await oauth.find_unused(kind, secret)
        issued = await oauth.exchange(kind, found, [s for s in found.scopes if s in scopes]) if found else None
        if issued is None:
            raise TokenError("invalid_grant", f"the {KINDS[kind]} does not exist")
        return OAuthToken(
            access_token=issued.access,
            expires_in=issued.seconds,
            scope=" ".join(issued.scopes),
            refresh_token=issued.refresh,
        )


# Endpoints for applications


async def authorize(request: Request) -> Response:
    """Check a request, and send the person to the consent page.

    An error goes back to a program on the person's own computer. Nobody is sent to a web site before they agreed:
    everybody can register one, so this would be an open redirect (RFC 9700, 4.11.2). There the person sees the error.
    """
    caller = address_of(request.scope, request.app.state.app.settings)
    provider: Any = Provider(request, caller, may_fetch=True)
    client_id = request.query_params.get("client_id", "")
    if client_id.startswith("https://") and await provider.client(client_id) is None:
        return JSONResponse({"error": "invalid_client", "error_description": NO_DOCUMENT}, 400)
    response = await AuthorizationHandler(provider).handle(request)
    target = response.headers.get("location", "")
    if not target or target.startswith(f"{provider.base}{CONSENT_PAGE}"):
        return response
    if urlsplit(target).hostname in LOOPBACK:
        response.headers["location"] = construct_redirect_uri(target, iss=provider.base)
        return response
    given = dict(parse_qsl(urlsplit(target).query))
    problem = {name: given[name] for name in ("error", "error_description") if name in given}
    return JSONResponse(problem, 400)


async def register(request: Request) -> Response:
    options = ClientRegistrationOptions(enabled=True, default_scopes=USUAL_SCOPES)
    provider: Any = Provider(request, request.state.caller)
    return await RegistrationHandler(provider, options).handle(await _small(request))


async def token(request: Request) -> Response:
    """Exchange a code or a refresh token for new tokens."""
    small = await _small(request)
    form = await small.form()
    if len(form.multi_items()) > len(form):
        return _error("invalid_request", TWICE)
    provider: Any = Provider(request, has_redirect_uri="redirect_uri" in form)
    if "resource" in form and metadata.resource_of(provider.base, str(form["resource"])) is None:
        return _error("invalid_target", OTHER_SERVER)
    response: Response = await TokenHandler(provider, ClientAuthenticator(provider)).handle(small)
    return response


async def revoke(request: Request) -> Response:
    """End an application's access (RFC 7009). The SDK's handler refuses clients without a secret."""
    oauth = request.app.state.app.oauth
    form = await (await _small(request)).form()
    secret, client_id = form.get("token"), form.get("client_id")
    if len(form.multi_items()) > len(form):
        return _error("invalid_request", TWICE)
    if not isinstance(secret, str):
        return _error("invalid_request", "token is required")
    if not isinstance(client_id, str) or await oauth.known_client(client_id) is None:
        return _error("invalid_client", "client_id is not known", 401)
    found = await oauth.find_access_token(secret) or await oauth.find_unused("refresh", secret)
    if found and found.application.client_id == client_id:
        await oauth.end(found.application)
    return Response()


def _error(code: str, description: str, status: int = 400) -> Response:
    return json_response({"error": code, "error_description": description}, status, {"cache-control": "no-store"})


async def _small(request: Request) -> Request:
    """The request with its body already read, which must be short."""
    body = await read_body(request, LARGEST)

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, receive)


# The consent page


async def show_request(request: Request) -> Response:
    requester, asked, _ = await _asked_of_person(request)
    host = urlsplit(asked.redirect_uri).hostname
    return json_response(
        {
            "application": asked.client.name,
            "publisher": urlsplit(asked.client.id).hostname if asked.client.has_document else None,
            "returns_to": "this computer" if host in LOOPBACK else host,
            "scopes": [{"name": scope, "is_allowed": scope in requester.caller.scopes} for scope in asked.scopes],
            "is_whole_server": asked.resource == EVERYTHING,
        }
    )


async def decide(request: Request) -> Response:
    """Let the application in or not. The answer is the address that tells it, with a code if it is let in."""
    requester, asked, given = await _asked_of_person(request)
    if given.get("allow") is True:
        chosen = given.get("scopes")
        scopes = [scope for scope in asked.scopes if isinstance(chosen, list) and scope in chosen]
        if not set(scopes) & requester.caller.scopes:
            raise Refused("scopes: choose at least one that you have yourself.")
        oauth: OAuth = request.app.state.app.oauth
        outcome = {"code": await oauth.connect(requester.workspace, requester.caller, replace(asked, scopes=scopes))}
    else:
        outcome = {"error": "access_denied"}
    target = construct_redirect_uri(asked.redirect_uri, **outcome, state=asked.state, iss=metadata.base_of(request))
    return json_response({"redirect": target})


async def _asked_of_person(request: Request) -> tuple[Requester, AccessRequest, dict[str, Any]]:
    """The person who is logged in, the request for access, and the body. The request is in the body, as it was in the
    address of the consent page. It is checked again: the address may be anybody's."""
    requester: Requester = request.scope["palaver.requester"]
    must_be_person(requester.caller)
    if "read" not in requester.caller.scopes:
        raise Forbidden("Your token needs the scope 'read' to let applications in.")
    given = await body_of(request, LARGEST)
    if not isinstance(given.get("query"), str):
        raise Refused("query: is required. It is the part of the address after the '?'.")
    provider = Provider(request, f"token {requester.token_id}", may_fetch=True)
    try:
        said = AuthorizationRequest.model_validate(dict(parse_qsl(given["query"], max_num_fields=20)))
        client = await provider.client(said.client_id)
        if client is None:
            raise Refused("The application is not known. Start again from the application.")
        known = _registered(client)
        redirect_uri = str(known.validate_redirect_uri(said.redirect_uri))
        scopes: Any = known.validate_scope(said.scope)
        resource = provider.check(said.code_challenge, said.resource)
    except (ValidationError, ValueError, InvalidRedirectUriError, AuthorizeError):
        raise Refused("This request for access is not valid. Start again from the application.") from None
    await provider.app.oauth.keep_client(client.id)
    return requester, AccessRequest(client, redirect_uri, scopes, resource, said.code_challenge, said.state), given
