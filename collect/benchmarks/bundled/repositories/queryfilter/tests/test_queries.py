import pytest

from queryfilter import QueryError, Store


def test_comparisons(names):
    assert names("price < 30") == ["mug", "Mug XL"]
    assert names("price >= 45") == ["lamp", "rug"]
    assert names('name != "mug" and price <= 12') == ["Mug XL"]


def test_equality_and_null(names):
    assert names('brand = "acme"') == ["mug", "teapot"]
    assert names("brand = null") == ["rug"]
    assert names("price = null or price > 100") == ["rug", "candle"]


def test_and_binds_tighter_than_or(names):
    assert names('brand = "acme" or brand = "lux" and price < 20') == ["mug", "teapot", "Mug XL"]
    assert names('(brand = "acme" or brand = "lux") and price < 20') == ["mug", "Mug XL"]


def test_not_before_parentheses(names):
    assert names('not (brand = "acme" or paid = true)') == ["rug"]


def test_not_binds_tightest(names):
    assert names('not brand = "acme" and paid = true') == ["lamp", "Mug XL", "candle"]


def test_double_negation(names):
    assert names('not not brand = "acme"') == ["mug", "teapot"]


def test_like(names):
    assert names('name like "mug%"') == ["mug", "Mug XL"]
    assert names('name like "_ug"') == ["mug", "rug"]


def test_has(names):
    assert names('tags has "kitchen" and tags has "old"') == ["Mug XL"]


def test_in_and_between(names):
    assert names('brand in ("acme", null)') == ["mug", "teapot", "rug"]
    assert names("price between 10 and 45 and paid = true") == ["lamp", "Mug XL"]


def test_inverted_conditions(names):
    assert names('brand not in ("acme", "lux") or name not like "%u%" and paid = false') == [
        "teapot",
        "rug",
    ]


def test_nested_fields():
    store = Store(indexed=["address.city"])
    store.insert(name="a", address={"city": "Bonn"})
    store.insert(name="b", address=None)
    assert [record["name"] for record in store.query('address.city = "Bonn"')] == ["a"]


def test_escaped_quotes():
    store = Store()
    store.insert(name='the "big" one')
    assert store.count('name = "the \\"big\\" one"') == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("price <", "expected value at 7, found end of query"),
        ("price ? 3", "unexpected '\\?' at 5"),
        ("(price = 3", r"expected \) at 10"),
        ("price = 3 name = 4", "expected end at 10, found 'name'"),
    ],
)
def test_bad_queries(store, text, message):
    with pytest.raises(QueryError, match=message):
        store.query(text)
