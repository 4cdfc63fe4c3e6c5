"""A vending machine: coins in, a choice, the product and the change out."""

from __future__ import annotations

from typing import Dict, List, Tuple

from .clock import Clock
from .definition import Definition
from .guards import all_of, at_least, equals
from .machine import Machine

COINS = (200, 100, 50, 20, 10)


def change_for(amount: int) -> List[int]:
    """The amount in as few coins as possible."""
    coins = []
    for coin in COINS:
        coins.extend([coin] * (amount // coin))
        amount %= coin
    return coins


def insert(context: dict) -> None:
    context["credit"] += context["coin"]


def refund(context: dict) -> None:
    context["tray"].extend(change_for(context["credit"]))
    context["credit"] = 0


def dispense(slot: str, price: int):
    """The action that sells one piece out of a slot."""

    def action(context: dict) -> None:
        context["stock"][slot] -= 1
        context["sold"].append(slot)
        context["credit"] -= price

    return action


def build(prices: Dict[str, int]) -> Definition:
    """`waiting` for coins, `choosing` with some credit, `serving` for two seconds."""
    machine = Definition()
    machine.state("waiting")
    machine.state("choosing")
    machine.state("serving", on_exit=refund)
    machine.state("locked")
    machine.on("coin", "waiting", "choosing", action=insert)
    machine.on("coin", "choosing", "choosing", action=insert)
    machine.on("cancel", "choosing", "waiting", action=refund)
    for slot, price in prices.items():
        conditions = [equals("slot", slot), at_least("credit", price)]
        conditions.append(lambda context, slot=slot: context["stock"].get(slot, 0) > 0)
        machine.on("choose", "choosing", "serving", all_of(*conditions), dispense(slot, price))
    machine.after(30, "choosing", "waiting", action=refund)
    machine.after(2, "serving", "waiting")
    machine.on("lock", "waiting", "locked")
    machine.on("unlock", "locked", "waiting")
    return machine


def vending_machine(items: Dict[str, Tuple[int, int]], clock: Clock) -> Machine:
    """A machine with (price, pieces) for each slot."""
    prices = {slot: price for slot, (price, _) in items.items()}
    stock = {slot: pieces for slot, (_, pieces) in items.items()}
    return Machine(build(prices), clock, {"credit": 0, "stock": stock, "sold": [], "tray": []})
