"""Host names in headers, and the address of a caller for limits that each caller has for itself."""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.types import Scope

from palaver.settings import Settings

_HOST = re.compile(r"([a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")
DEFAULT_PORTS = {"http": 80, "https": 443}


def split_host(text: str) -> tuple[str, int | None] | None:
    """The name and the port in a Host header: '[::1]:80' is ('::1', 80). None if it is not a valid one."""
    if (found := _HOST.fullmatch(text.lower())) is None:
        return None
    name, port = found[1].strip("[]"), int(found[2]) if found[2] else None
    with suppress(ValueError):
        if found[1].startswith("["):
            ipaddress.IPv6Address(name)
        return (name, port) if (port or 0) < 65_536 else None
    return None


def split_origin(text: str) -> tuple[str, int] | None:
    """The name and the port in an Origin header. None if it is not a valid one, or not of the web."""
    scheme, _, rest = text.lower().partition("://")
    if scheme not in DEFAULT_PORTS or (host := split_host(rest)) is None:
        return None
    name, port = host
    return name, DEFAULT_PORTS[scheme] if port is None else port


def address_of(scope: Scope, settings: Settings) -> str:
    """The IPv4 address, or the /64 network of the IPv6 address: a customer has all addresses of such a network.

    Behind a proxy it is the last address in X-Forwarded-For. Anybody can send this header, so it counts only where a
    public URL is set and the connection comes from a private network, as that of a proxy does.
    """
    peer = (scope.get("client") or ("",))[0]
    network = _network(peer)
    forwarded = Headers(scope=scope).getlist("x-forwarded-for")
    if network and forwarded and settings.public_url and not network.is_global:
        network = _network(forwarded[-1].rpartition(",")[2].strip()) or network
    return str(network or peer)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    has_port = re.fullmatch(r"\[(.+)\](:[0-9]+)?|([0-9.]+):[0-9]+", text)
    with suppress(ValueError):
        address = ipaddress.ip_address((has_port[1] or has_port[3]) if has_port else text)
        if isinstance(address, ipaddress.IPv6Address):
            if address.ipv4_mapped is None:
                return ipaddress.IPv6Network((int(address), 64), strict=False)
            address = address.ipv4_mapped
        return ipaddress.IPv4Network(address)
    return None
