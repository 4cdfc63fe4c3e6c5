import pytest

from lrustore import MemoryStore, WriteBack


@pytest.fixture
def store():
    return MemoryStore({"apples": 3, "pears": 4})


@pytest.fixture
def cache(store):
    return WriteBack(store, capacity=4, limit=3)


def test_reads_through(cache, store):
    assert cache.get("apples") == 3
    store.rows["apples"] = 99
    assert cache.get("apples") == 3


def test_changes_are_seen_before_they_are_written(cache, store):
    cache.put("apples", 5)
    assert cache.get("apples") == 5
    assert store.read("apples") == 3


def test_flush_writes(cache, store):
    cache.put("apples", 5)
    cache.put("plums", 1)
    assert cache.pending == ["apples", "plums"]
    cache.flush()
    assert (store.read("apples"), store.read("plums")) == (5, 1)
    assert cache.pending == []


def test_only_the_last_change_is_written(cache, store):
    for amount in range(5):
        cache.put("apples", amount)
    cache.close()
    assert (store.writes, store.read("apples")) == (1, 4)


def test_flushes_when_there_are_too_many(cache, store):
    for key in ("a", "b", "c"):
        cache.put(key, 1)
    assert store.writes == 0
    cache.put("d", 1)
    assert store.writes == 4


def test_total_follows_the_rows(cache, store):
    def sum_up(key, value):
        if key != "total":
            cache.put("total", cache.get("apples") + cache.get("pears"))

    store.subscribe(sum_up)
    cache.put("apples", 10)
    cache.put("pears", 20)
    cache.close()
    assert store.read("total") == 30
    assert cache.pending == []
