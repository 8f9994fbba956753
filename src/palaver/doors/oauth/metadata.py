"""What OAuth clients read first: who guards this server (RFC 9728), and how they get a token (RFC 8414)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request

from palaver.doors.http.addresses import DEFAULT_PORTS, split_host
from palaver.model.admin.oauth import EVERYTHING, MCP_RESOURCES
from palaver.settings import Settings

AUTHORIZE, TOKEN, REGISTER, REVOKE = "/authorize", "/token", "/register", "/revoke"
ENDPOINTS = frozenset({AUTHORIZE, TOKEN, REGISTER, REVOKE})
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
SERVER_METADATA = "/.well-known/oauth-authorization-server"

USUAL_SCOPES = ["read", "write"]
"""The scopes an application gets that asks for none. No MCP tool needs admin."""
ALL_SCOPES = ["read", "write", "admin"]


def base_url(settings: Settings, scheme: str, headers: Mapping[str, str]) -> str:
    """The address of this server: the public URL, or the one that the client used. Its host was checked."""
    host = headers.get("host", "").lower()
    if settings.public_url or split_host(host) is None:
        return settings.base_url
    return f"{scheme}://{host}"


def base_of(request: Request) -> str:
    return base_url(request.app.state.app.settings, request.url.scheme, request.headers)


def resource_of(base: str, address: str | None) -> str | None:
    """The resource that an address names (RFC 8707): /mcp, /sse or / for everything. None if it is another server."""
    if address is None:
        return MCP_RESOURCES[0]
    try:
        path = urlsplit(address).path.rstrip("/") or EVERYTHING
        return path if path in (*MCP_RESOURCES, EVERYTHING) and _origin(address) == _origin(base) else None
    except ValueError:  # not an address
        return None


def _origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme)


def protected_resource(base: str, resource: str) -> dict[str, Any]:
    return {
        "resource": base + resource if resource != EVERYTHING else base,
        "resource_name": "palaver",
        "authorization_servers": [base],
        "scopes_supported": ALL_SCOPES if resource == EVERYTHING else USUAL_SCOPES,
        "bearer_methods_supported": ["header"],
    }


def authorization_server(base: str, *, reads_documents: bool) -> dict[str, Any]:
    """`reads_documents`: clients may name their metadata document instead of registering. Some then never register."""
    return {
        "issuer": base,
        "authorization_endpoint": base + AUTHORIZE,
        "token_endpoint": base + TOKEN,
        "registration_endpoint": base + REGISTER,
        "revocation_endpoint": base + REVOKE,
        "scopes_supported": ALL_SCOPES,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": reads_documents,
        "authorization_response_iss_parameter_supported": True,
    }


def challenge(base: str, path: str, *, has_token: bool) -> str:
    """The WWW-Authenticate header of a refused request. It tells the client where to read on."""
    resource = "/sse" if path.startswith(("/sse", "/messages")) else "/mcp" if path.startswith("/mcp") else ""
    parts = ['Bearer realm="palaver"', f'resource_metadata="{base}{RESOURCE_METADATA}{resource}"']
    parts += [f'scope="{" ".join(USUAL_SCOPES)}"'] if resource else []
    parts += ['error="invalid_token"'] if has_token else []
    return ", ".join(parts)
