"""How often one may ask, and which address counts."""

import pytest

from webapp.limits import Buckets, client_address


def test_burst_then_refill():
    now = [100.0]
    buckets = Buckets(burst=3, refill_s=10.0, clock=lambda: now[0])
    assert [buckets.wait_s("a") for _ in range(3)] == [0, 0, 0]
    assert buckets.wait_s("a") == pytest.approx(10.0)
    assert buckets.wait_s("b") == 0
    now[0] += 6
    assert buckets.wait_s("a") == pytest.approx(4.0)
    now[0] += 4
    assert buckets.wait_s("a") == 0
    now[0] += 1000
    assert [buckets.wait_s("a") for _ in range(4)] == [0, 0, 0, pytest.approx(10.0)]


def test_memory_is_bounded():
    buckets = Buckets(burst=1, refill_s=60, max_keys=50)
    for n in range(500):
        buckets.wait_s(f"visitor {n}")
    assert len(buckets._levels) == 50


@pytest.mark.parametrize(
    ("peer", "forwarded", "proxy", "got"),
    [
        ("10.0.0.1", "1.1.1.1, 2.2.2.2", False, "10.0.0.1"),
        ("10.0.0.1", "9.9.9.9, 2.2.2.2", True, "2.2.2.2"),
        ("10.0.0.1", "", True, "10.0.0.1"),
        (None, "", False, "unknown"),
        ("2001:db8:1:2:3:4:5:6", "", False, "2001:db8:1:2::"),
        ("::ffff:1.2.3.4", "", False, "::ffff:102:304"),
        ("x" * 500, "", False, "x" * 64),
    ],
)
def test_address(peer, forwarded, proxy, got):
    headers = {"x-forwarded-for": forwarded} if forwarded else {}
    assert client_address(peer, headers, behind_proxy=proxy) == got
