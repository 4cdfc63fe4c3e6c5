import pytest

from shopcart import BuyXGetY, Coupon, PercentOff
from shopcart.shipping import TooHeavy


def test_quote_without_discounts(cart, checkout):
    cart.add("mug", 2)
    cart.add("tea", 1)
    quote = checkout.quote(cart)
    assert (quote.subtotal, quote.goods, quote.shipping) == (2248, 2248, 499)
    assert quote.taxes == {"standard": 342, "food": 32}
    assert quote.total == 2248 + 499 + 374


def test_percentage_off_everything(cart, checkout):
    cart.add("mug", 2)
    cart.add("tea", 1)
    quote = checkout.quote(cart, [PercentOff(10)])
    assert quote.discount == 225
    assert quote.taxes == {"standard": 307, "food": 28}


def test_percentage_off_one_category(cart, checkout):
    cart.add("mug")
    cart.add("jam", 3)
    quote = checkout.quote(cart, [PercentOff(50, category="food")])
    assert quote.discount == 500
    assert quote.taxes == {"standard": 171, "food": 35}


def test_food_offer_leaves_books_untouched(cart, checkout):
    cart.add("atlas")
    cart.add("tea")
    cart.add("jam")
    quote = checkout.quote(cart, [PercentOff(15, category="food")])
    assert quote.discount == 117
    assert quote.taxes == {"books": 210, "food": 47}


def test_coupon_is_spread_over_all_lines(cart, checkout):
    cart.add("mug")
    cart.add("tea")
    quote = checkout.quote(cart, [Coupon(500)])
    assert quote.goods == 849
    assert quote.taxes == {"standard": 108, "food": 20}


def test_coupon_after_a_free_item(cart, checkout):
    cart.add("tea")
    cart.add("jam", 2)
    cart.add("mug", 1)
    quote = checkout.quote(cart, [BuyXGetY("tea", 0, 1), Coupon(100)])
    assert quote.goods == 1465
    assert quote.taxes == {"food": 44, "standard": 160}


def test_coupon_needs_its_minimum(cart, checkout):
    cart.add("tea", 2)
    assert checkout.quote(cart, [Coupon(500, minimum=901)]).discount == 0
    assert checkout.quote(cart, [Coupon(500, minimum=900)]).discount == 500


def test_coupon_is_worth_no_more_than_the_goods(cart, checkout):
    cart.add("tea")
    assert checkout.quote(cart, [Coupon(2000)]).goods == 0


def test_third_piece_is_free(cart, checkout):
    cart.add("tea", 7)
    assert checkout.quote(cart, [BuyXGetY("tea", 2, 1)]).discount == 900


def test_discounts_apply_one_after_the_other(cart, checkout):
    cart.add("mug", 2)
    quote = checkout.quote(cart, [PercentOff(50), Coupon(500, minimum=1000)])
    assert quote.goods == 899


def test_shipping_bands(cart, checkout):
    cart.add("tea", 5)
    assert checkout.quote(cart).shipping == 299
    cart.add("tea")
    assert checkout.quote(cart).shipping == 499


def test_shipping_is_free_for_large_orders(cart, checkout):
    cart.add("pot", 2)
    assert checkout.quote(cart).shipping == 1499
    cart.add("card", 2)
    assert checkout.quote(cart).shipping == 0


def test_too_heavy_a_cart(cart, checkout):
    cart.add("atlas", 14)
    checkout.shipping.free_from = 100000
    with pytest.raises(TooHeavy, match="21000 g"):
        checkout.quote(cart)


def test_other_regions(cart, checkout):
    cart.add("atlas")
    checkout.region = "FR"
    assert checkout.quote(cart).taxes == {"books": 165}
    checkout.region = "XX"
    with pytest.raises(LookupError, match="XX"):
        checkout.quote(cart)
