import pytest

from statelights import Clock
from statelights.vending import vending_machine


@pytest.fixture()
def clock():
    return Clock()


@pytest.fixture()
def machine(clock):
    return vending_machine({"A1": (150, 3), "A2": (120, 1), "B1": (80, 5)}, clock)


def pay(machine, *coins):
    for coin in coins:
        machine.send("coin", coin=coin)


def test_product_and_change(machine, clock):
    pay(machine, 200)
    assert machine.send("choose", slot="A1")
    clock.advance(2)
    assert machine.state == "waiting"
    assert machine.context["sold"] == ["A1"]
    assert machine.context["tray"] == [50]


def test_each_slot_sells_its_own_product(machine, clock):
    for slot in ["A2", "B1"]:
        pay(machine, 100, 20)
        machine.send("choose", slot=slot)
        clock.advance(2)
    assert machine.context["sold"] == ["A2", "B1"]
    assert machine.context["tray"] == [20, 20]


def test_stock_goes_down(machine, clock):
    pay(machine, 100, 20)
    machine.send("choose", slot="A2")
    clock.advance(2)
    assert machine.context["stock"] == {"A1": 3, "A2": 0, "B1": 5}


def test_empty_slot_is_refused(machine, clock):
    pay(machine, 200, 100)
    machine.send("choose", slot="A2")
    clock.advance(2)
    pay(machine, 200)
    assert not machine.send("choose", slot="A2")
    assert machine.context["credit"] == 200


def test_too_little_credit(machine):
    pay(machine, 100)
    assert not machine.send("choose", slot="A1")
    pay(machine, 50)
    assert machine.send("choose", slot="A1")


def test_cancel_gives_the_coins_back(machine):
    pay(machine, 20, 50, 10)
    machine.send("cancel")
    assert machine.state == "waiting"
    assert machine.context["tray"] == [50, 20, 10]


def test_credit_is_given_back_after_half_a_minute(machine, clock):
    pay(machine, 50)
    clock.advance(29)
    assert machine.state == "choosing"
    clock.advance(1)
    assert machine.state == "waiting"
    assert machine.context["tray"] == [50]


def test_every_coin_gives_new_time_to_choose(machine, clock):
    pay(machine, 100)
    clock.advance(20)
    pay(machine, 50)
    clock.advance(20)
    assert machine.state == "choosing"
    assert machine.send("choose", slot="A1")
    clock.advance(2)
    assert machine.context["tray"] == []


def test_next_customer_after_a_sale(machine, clock):
    pay(machine, 100)
    machine.send("choose", slot="B1")
    clock.advance(2)
    pay(machine, 10)
    clock.advance(29.5)
    assert machine.state == "choosing"
    assert machine.context["tray"] == [20]


def test_customers_do_not_share_their_time(machine, clock):
    pay(machine, 50, 50)
    clock.advance(10)
    machine.send("choose", slot="B1")
    clock.advance(2)
    pay(machine, 100)
    clock.advance(25)
    assert machine.state == "choosing"
    assert machine.send("choose", slot="B1")


def test_locked_machine_takes_no_coins(machine):
    machine.send("lock")
    assert not machine.send("coin", coin=100)
    machine.send("unlock")
    assert machine.send("coin", coin=100)
