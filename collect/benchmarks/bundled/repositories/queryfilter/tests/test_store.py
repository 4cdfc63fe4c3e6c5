from queryfilter import Store


def all_pages(store, order, limit, text=""):
    """The names on each page."""
    pages, cursor = [], None
    while True:
        page = store.page(text, order, limit, cursor)
        pages.append([record["name"] for record in page.records])
        cursor = page.cursor
        if cursor is None:
            return pages


def test_order_by_several_fields(names):
    assert names("", "brand, -price") == ["teapot", "mug", "lamp", "Mug XL", "candle", "rug"]


def test_missing_values_are_last_either_way(names):
    assert names("", "price")[-1] == "candle"
    assert names("", "-price")[-1] == "candle"


def test_without_an_order_the_oldest_comes_first(names):
    assert names("paid = true", "") == ["mug", "lamp", "Mug XL", "candle"]


def test_pages_by_price(store):
    assert all_pages(store, "price", 4) == [["mug", "Mug XL", "teapot", "lamp"], ["rug", "candle"]]


def test_pages_that_come_out_even(store):
    assert all_pages(store, "-id", 3) == [["candle", "rug", "Mug XL"], ["lamp", "teapot", "mug"]]


def test_pages_of_equal_records(store):
    pages = all_pages(store, "brand", 2)
    assert pages == [["mug", "teapot"], ["lamp", "Mug XL"], ["candle", "rug"]]


def test_pages_of_paid_and_unpaid(store):
    pages = all_pages(store, "-paid", 2)
    assert pages == [["mug", "lamp"], ["Mug XL", "candle"], ["teapot", "rug"]]


def test_pages_of_a_query(store):
    assert all_pages(store, "-price", 2, 'brand = "lux"') == [["lamp", "Mug XL"], ["candle"]]


def test_page_survives_an_insert_before_it(store):
    first = store.page("", "price", 2)
    store.insert(name="pin", brand="acme", price=1, paid=True, tags=[])
    second = store.page("", "price", 2, first.cursor)
    assert [record["name"] for record in second.records] == ["teapot", "lamp"]


def test_indexes_are_not_needed():
    store = Store()
    store.insert(name="x", price=1)
    store.insert(name="y", price=2)
    store.update(1, price=3)
    assert [record["name"] for record in store.query("price = 3 or price > 5")] == ["x"]


def test_results_are_copies(store):
    store.query('name = "mug"')[0]["price"] = 1000
    assert store.count("price = 1000") == 0


def test_updated_records_are_found_by_their_new_values(store, names):
    store.update(1, brand="lux", price=9)
    assert names('brand = "lux" and price < 10') == ["mug"]
    assert names('brand = "acme"') == ["teapot"]


def test_deleted_records_are_gone(store, names):
    store.delete(3)
    assert names('brand = "lux"') == ["Mug XL", "candle"]
    assert store.count() == 5


def test_record_deleted_after_an_update(store, names):
    store.update(2, price=31)
    store.update(2, brand="lux")
    store.delete(2)
    assert names('brand in ("acme", "lux")') == ["mug", "lamp", "Mug XL", "candle"]
    assert names("price = 30 or price = 31") == []
