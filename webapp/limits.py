"""How often a visitor may ask: token buckets by browser and by address, with bounded memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass
class Buckets:
    """One token bucket per key: `burst` questions at once, then one every `refill_s` seconds.

    At most `max_keys` keys are remembered; the least recently used is forgotten first, which can only make the
    limiter kinder, never make it grow.
    """

    burst: int
    refill_s: float
    max_keys: int = 10_000
    clock: Callable[[], float] = time.monotonic
    _levels: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def wait_s(self, key: str) -> float:
        """Take one token. Returns 0 when there was one, else the seconds until there is (and takes nothing)."""
        now = self.clock()
        level, since = self._levels.pop(key, (float(self.burst), now))
        level = min(float(self.burst), level + (now - since) / self.refill_s)
        enough = level >= 1.0
        self._levels[key] = (level - 1.0 if enough else level, now)
        while len(self._levels) > self.max_keys:
            self._levels.popitem(last=False)
        return 0.0 if enough else (1.0 - level) * self.refill_s


def client_address(peer: str | None, headers: Mapping[str, str], *, behind_proxy: bool) -> str:
    """The visitor's address: the socket's peer, or behind a Space's proxy the right-most forwarded hop.

    The hops further left come from the visitor and can be anything. IPv6 visitors own whole /64 networks, so only
    the first four groups of an IPv6 address count.
    """
    address = peer or "unknown"
    if behind_proxy:
        hops = [hop.strip() for hop in headers.get("x-forwarded-for", "").split(",") if hop.strip()]
        address = hops[-1] if hops else address
    return _network(address)


def _network(address: str) -> str:
    import ipaddress

    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network(f"{ip}/64", strict=False).network_address)
    return str(ip)
