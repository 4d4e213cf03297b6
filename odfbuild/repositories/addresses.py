"""HTTP addresses of repositories, of redirects, and of other things that a server names.

What others write is no address until it is found to be one: a port may be out of range, a host may
be none that can be looked up, and brackets may be open.
"""

import ipaddress
import re
import socket
from typing import Final, NewType
from urllib.parse import SplitResult, urljoin, urlsplit

Origin = NewType("Origin", str)
"""A scheme, a host and a port, as `https://host:443`."""

_PORTS: Final = {"http": 80, "https": 443}
_NUMERIC: Final = re.compile(r"[0-9a-fx.]+", re.IGNORECASE)
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.IGNORECASE)
_LONGEST_HOST: Final = 253
_UNUSUAL: Final = re.compile(r"[\x00-\x20\x7f]")


def parsed(url: str) -> SplitResult | None:
    """Return the parts of an address over HTTP that can be asked for, None of anything else.

    Before the scheme may be a protocol, as in `odf+https`; it is left out.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    parts = parts._replace(scheme=parts.scheme.rpartition("+")[2])
    host = parts.hostname
    if parts.scheme not in _PORTS or port == 0 or _UNUSUAL.search(url) or not host:
        return None
    if "[" in parts.netloc and ":" not in host:  # an address of a version that is to come
        return None
    return parts if _is_host(host) else None


def origin_of(url: str) -> Origin | None:
    """Return the origin of an address over HTTP, None if it is no such address."""
    parts = parsed(url)
    if parts is None:
        return None
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return Origin(f"{parts.scheme}://{host}:{parts.port or _PORTS[parts.scheme]}")


def joined(base: str, target: str) -> str | None:
    """Return where a reference leads from an address (RFC 3986, 5.2), None if it leads nowhere."""
    try:
        return urljoin(base, target)
    except ValueError:
        return None


def is_inside(host: str) -> bool:
    """Say whether a host is an address of this machine or its network, as far as its text tells."""
    name = host.removesuffix(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(_as_numbers(name) or name)
    except ValueError:
        return False
    inner = getattr(address, "ipv4_mapped", None)
    return not (inner or address).is_global


def _as_numbers(host: str) -> str | None:
    """Return an IPv4 address in its usual form: `127.1`, `0x7f000001` and `2130706433` are one."""
    if not _NUMERIC.fullmatch(host):
        return None
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None


def _is_host(host: str) -> bool:
    """Say whether a host can be looked up: an address of IP, or a name of at most 253 characters.

    A name that begins as an international one is decoded by who asks, so it has to be right.
    """
    if ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            return False
        return True
    labels = host.removesuffix(".").split(".")
    if host.isascii() and (
        len(host) > _LONGEST_HOST or not all(_LABEL.fullmatch(each) for each in labels)
    ):
        return False
    international = not host.isascii() or any(each.lower().startswith("xn--") for each in labels)
    return not international or _decodes(host)


def _decodes(host: str) -> bool:
    import httpx

    try:
        url = httpx.URL(f"http://{host}/")
        return bool(url.host) and len(url.raw_host) <= _LONGEST_HOST
    except (httpx.InvalidURL, UnicodeError):
        return False
