import pytest

from shopcart import Cart, Catalog, Checkout, Inventory, Product


@pytest.fixture()
def catalog():
    return Catalog(
        [
            Product("mug", "Mug", 899, 400),
            Product("tea", "Green tea", 450, 100, "food"),
            Product("jam", "Plum jam", 333, 350, "food"),
            Product("atlas", "Road atlas", 2999, 1500, "books"),
            Product("card", "Gift card", 1, 0),
            Product("pot", "Iron pot", 4999, 4200),
        ]
    )


@pytest.fixture()
def cart(catalog):
    return Cart(catalog)


@pytest.fixture()
def inventory():
    return Inventory({"mug": 10, "tea": 20, "jam": 3, "atlas": 2, "pot": 5})


@pytest.fixture()
def checkout(inventory):
    return Checkout(inventory, "DE")
