import pytest

from shopcart import Cart, OutOfStock


def test_changing_a_quantity_changes_the_quote(cart, checkout):
    cart.add("tea", 5)
    assert checkout.quote(cart).total == 2250 + 158 + 299
    cart.set_quantity("tea", 1)
    assert checkout.quote(cart).total == 450 + 32 + 299


def test_removed_lines_cost_nothing(cart, checkout):
    cart.add("tea")
    cart.add("pot")
    cart.remove("pot")
    assert checkout.quote(cart).subtotal == 450


def test_guest_cart_is_merged(cart, catalog):
    guest = Cart(catalog)
    guest.add("tea", 3)
    guest.add("mug")
    cart.add("tea")
    cart.merge(guest)
    assert [(line.product.sku, line.quantity) for line in cart.lines] == [("tea", 3), ("mug", 1)]


def test_order_after_login_contains_the_guests_items(cart, catalog, checkout, inventory):
    cart.add("tea")
    assert checkout.quote(cart).goods == 450
    guest = Cart(catalog)
    guest.add("tea", 4)
    guest.add("pot", 1)
    cart.merge(guest)
    order = checkout.place(cart)
    assert order.quote.shipping == 799
    assert inventory.available("pot") == 4


def test_placing_reserves_and_empties_the_cart(cart, checkout, inventory):
    cart.add("mug", 4)
    order = checkout.place(cart)
    assert (order.number, order.items, cart.lines) == (1, [("mug", 4)], [])
    assert (inventory.available("mug"), inventory.on_shelf("mug")) == (6, 10)


def test_shipping_an_order_takes_it_off_the_shelf(cart, checkout, inventory):
    cart.add("mug", 4)
    checkout.ship(checkout.place(cart))
    assert (inventory.available("mug"), inventory.on_shelf("mug")) == (6, 6)


def test_cancelled_items_can_be_bought_again(cart, checkout, inventory):
    cart.add("atlas", 2)
    order = checkout.place(cart)
    checkout.cancel(order)
    assert inventory.available("atlas") == 2
    with pytest.raises(ValueError, match="already cancelled"):
        checkout.ship(order)


def test_order_that_is_out_of_stock_is_refused(cart, checkout):
    cart.add("atlas", 3)
    with pytest.raises(OutOfStock, match="3 of atlas wanted, 2 available"):
        checkout.place(cart)
    assert cart.subtotal == 3 * 2999


def test_refused_order_can_be_made_smaller(cart, checkout, inventory):
    cart.add("mug", 10)
    cart.add("jam", 4)
    with pytest.raises(OutOfStock):
        checkout.place(cart)
    cart.set_quantity("jam", 3)
    checkout.place(cart)
    assert (inventory.available("mug"), inventory.available("jam")) == (0, 0)


def test_nothing_is_oversold_after_a_refused_order(cart, catalog, checkout, inventory):
    cart.add("tea", 2)
    cart.add("atlas", 3)
    with pytest.raises(OutOfStock):
        checkout.place(cart)
    other = Cart(catalog)
    other.add("atlas", 2)
    checkout.ship(checkout.place(other))
    other.add("atlas", 1)
    with pytest.raises(OutOfStock, match="0 available"):
        checkout.place(other)


def test_goods_received_can_be_bought(cart, checkout, inventory):
    inventory.receive("jam", 2)
    cart.add("jam", 5)
    assert checkout.place(cart).quote.goods == 5 * 333


def test_unknown_products_are_refused(cart):
    with pytest.raises(LookupError, match="no product hat"):
        cart.add("hat")
