"""The address of a caller, for limits that each caller has for itself."""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.types import Scope

from palaver.settings import Settings


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
