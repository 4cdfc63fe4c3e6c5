import pytest

from lrustore import LRU, TTLRules
from lrustore.tags import TagIndex


def test_evicts_the_least_recently_used():
    gone = []
    lru = LRU(2, lambda key, value: gone.append((key, value)))
    lru.put("a", 1)
    lru.put("b", 2)
    lru.get("a")
    lru.put("c", 3)
    assert gone == [("b", 2)]
    assert lru.keys() == ["a", "c"]


def test_replacing_evicts_nothing():
    lru = LRU(2, lambda key, value: pytest.fail("evicted"))
    lru.put("a", 1)
    lru.put("b", 2)
    lru.put("a", 3)
    assert lru.keys() == ["b", "a"]


def test_peek_is_no_use():
    lru = LRU(2)
    lru.put("a", 1)
    lru.put("b", 2)
    assert lru.peek("a") == 1
    assert lru.keys() == ["a", "b"]


def test_delete():
    lru = LRU(2)
    lru.put("a", 1)
    assert lru.delete("a")
    assert not lru.delete("a")
    assert len(lru) == 0


def test_capacity_is_checked():
    with pytest.raises(ValueError, match="at least 1"):
        LRU(0)


def test_longest_prefix_rules():
    rules = TTLRules(60, {"user:": 10, "user:admin:": 5})
    assert [rules.seconds(key) for key in ("x", "user:1", "user:admin:1")] == [60, 10, 5]


def test_linking_replaces_tags():
    index = TagIndex()
    index.link("a", ["x", "y"])
    index.link("a", ["y", "z"])
    assert (index.keys("x"), index.keys("y"), index.keys("z")) == ([], ["a"], ["a"])
    assert index.tags("a") == {"y", "z"}
