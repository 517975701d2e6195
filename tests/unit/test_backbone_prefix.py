"""The prefix cache: matching, branching, order of eviction, and its bound."""

from __future__ import annotations

import torch

from core.backbone.kv import KeyValues
from core.backbone.prefix import Entry, PrefixCache, chain, shared

PER_TOKEN = 2 * 2 * 1 * 4 * 4  # layers x pair x heads x width x float32


def store(length: int, capacity: int | None = None) -> KeyValues:
    made = KeyValues.empty((2, 2, 1, 1), capacity or length, 4, 0, dtype=torch.float32, device="cpu")
    made.pairs.fill_(float(length))
    made.length = length
    return made


def entry(*chunks: tuple[int, ...], capacity: int | None = None) -> Entry:
    made = Entry(store(sum(map(len, chunks)), capacity))
    for key, chunk in zip(chain(chunks), chunks, strict=True):
        made.add(key, torch.zeros(1), len(chunk))
    return made


A, B, C, D = (1, 2, 3), (4, 5), (6,), (7, 8)


def test_a_key_stands_for_a_chunk_and_all_before_it():
    assert chain([A, B])[:1] == chain([A])
    assert chain([A, B])[1] != chain([C, B])[1]
    assert chain([(1, 2), (3,)])[-1] != chain([(1,), (2, 3)])[-1]
    assert chain([A], b"weights one") != chain([A], b"weights two")
    assert shared(chain([A, B, C]), chain([A, B, D])) == 2 and shared(chain([A]), chain([B])) == 0


def test_a_prefix_is_handed_over_and_a_branch_is_copied():
    cache = PrefixCache()
    first = entry(A, B, capacity=20)
    cache.put(first)
    grown = cache.take(chain([A, B, C]), 10)
    assert grown is first and len(cache) == 0
    cache.put(grown)
    branch = cache.take(chain([A, D]), 10)
    assert branch is not first and len(cache) == 1
    assert branch.ends == [3] and branch.store.length == 3 and branch.store.capacity >= 10
    assert branch.store.pairs[..., :3, :].equal(first.store.pairs[..., :3, :])
    assert cache.take(chain([C, A]), 10) is None
    assert cache.hits == 5 + 3


def test_a_prefix_without_room_moves_to_a_larger_memory():
    cache = PrefixCache()
    cache.put(entry(A, B))
    grown = cache.take(chain([A, B, C]), 50)
    assert grown.store.capacity >= 50 and grown.store.length == 5 and len(cache) == 0


def test_find_wants_all_chunks_and_may_stop_inside_an_entry():
    cache = PrefixCache()
    cache.put(entry(A, B, C))
    assert cache.find(chain([A, B])).ends[1] == 5
    assert cache.find(chain([A, D])) is None and cache.find(chain([A, B, C, D])) is None


def test_the_least_recently_used_goes_first():
    one = entry(A).nbytes
    cache = PrefixCache(2 * one)
    cache.put(entry(A))
    cache.put(entry((9, 9, 9)))
    assert cache.find(chain([A])) is not None  # touched: the other one is older now
    cache.put(entry((8, 8, 8)))
    assert cache.find(chain([A])) and cache.find(chain([(8, 8, 8)])) and not cache.find(chain([(9, 9, 9)]))


def test_the_bound_counts_spare_room_and_a_giant_keeps_its_beginning():
    cache = PrefixCache(30 * PER_TOKEN)
    cache.put(entry(A, B, tuple(range(40))))
    assert cache.nbytes <= cache.limit
    assert cache.find(chain([A, B])) is not None and cache.find(chain([A, B, tuple(range(40))])) is None
    cache.put(entry(D, capacity=1_000))
    assert cache.nbytes <= cache.limit and cache.find(chain([D])) is not None
    cache.put(entry(tuple(range(200))))
    assert cache.nbytes <= cache.limit and cache.find(chain([tuple(range(200))])) is None


def test_a_cache_of_no_bytes_keeps_nothing():
    cache = PrefixCache(0)
    cache.put(entry(A))
    assert len(cache) == 0 and cache.nbytes == 0
