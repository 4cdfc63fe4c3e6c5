import pytest

from lrustore import Cache, TTLRules


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cache(clock):
    rules = TTLRules(60, {"session:": 10, "price:": 0})
    return Cache(front=2, back=2, rules=rules, clock=clock)


def test_get_what_was_put(cache):
    cache.put("a", 1)
    assert cache.get("a") == 1
    assert cache.get("b", "none") == "none"
    assert (cache.stats.hits, cache.stats.misses) == (1, 1)


def test_front_overflows_into_the_back(cache):
    for key in "abc":
        cache.put(key, key)
    assert cache.layout() == (["b", "c"], ["a"])


def test_use_brings_a_key_to_the_front(cache):
    for key in "abc":
        cache.put(key, key)
    assert cache.get("a") == "a"
    assert cache.layout() == (["c", "a"], ["b"])


def test_drops_the_oldest_of_all(cache):
    for key in "abcde":
        cache.put(key, key)
    assert cache.layout() == (["d", "e"], ["b", "c"])
    assert cache.get("a") is None
    assert cache.stats.dropped == 1


def test_rules_say_how_long(cache, clock):
    cache.put("a", 1)
    cache.put("session:1", 2)
    clock.now += 10
    assert (cache.get("a"), cache.get("session:1")) == (1, None)


def test_ttl_beats_the_rules(cache, clock):
    cache.put("session:1", 2, ttl=30)
    clock.now += 20
    assert cache.get("session:1") == 2


def test_ttl_survives_the_back(cache, clock):
    cache.put("a", 1, ttl=30)
    cache.put("b", 2)
    cache.put("c", 3)
    clock.now += 29
    assert cache.get("a") == 1
    clock.now += 1
    assert cache.get("a") is None


def test_load_once(cache):
    calls = []
    for _ in range(3):
        assert cache.get_or_load("a", lambda key: calls.append(key) or 5) == 5
    assert calls == ["a"]


def test_prices_are_always_fresh(cache):
    prices = iter([10, 12, 9])
    seen = [cache.get_or_load("price:tea", lambda key: next(prices)) for _ in range(3)]
    assert seen == [10, 12, 9]


def test_ended_session_is_not_served(cache, clock):
    cache.put("session:1", "ada")
    assert cache.get("session:1") == "ada"
    cache.put("session:1", "ada", ttl=0)
    assert cache.get("session:1") is None


def test_invalidate_by_tag(cache):
    cache.put("a", 1, ["x"])
    cache.put("b", 2, ["x", "y"])
    cache.put("c", 3, ["y"])
    assert cache.invalidate("x") == 2
    assert [cache.get(key) for key in "abc"] == [None, None, 3]


def test_invalidate_in_a_full_cache(cache):
    cache.put("profile", "old", ["user"])
    for key in "abc":
        cache.put(key, key)
    assert cache.get("profile") == "old"
    assert cache.invalidate("user") == 1
    assert cache.get("profile") is None


def test_dropped_keys_have_no_tags(cache):
    for key in "abcde":
        cache.put(key, key, ["x"])
    assert cache.invalidate("x") == 4


def test_delete(cache):
    cache.put("a", 1)
    assert cache.delete("a")
    assert not cache.delete("a")
    assert cache.get("a") is None
