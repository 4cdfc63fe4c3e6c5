"""Generators, comprehensions, closures, classes, coroutines, a tracer of its own."""

import asyncio
import sys


class Meta(type):
    def __instancecheck__(cls, other):
        raise TypeError("no instance checks")


class Strange(metaclass=Meta):
    __slots__ = ("__hidden", "shown")

    def __init__(self):
        self.shown = self

    def __eq__(self, other):
        raise TypeError("not comparable")

    def __bool__(self):
        raise TypeError("no truth")

    @property
    def costly(self):
        while True:
            pass


def squares(limit):
    for n in range(limit):
        yield n * n


def closures():
    kept = []

    def add(value):
        nonlocal kept
        kept = kept + [value]
        return lambda: [item for item in kept if item is not value]

    return add(1)() + add(2)()


async def later(n):
    await asyncio.sleep(0)
    return [x async for x in steps(n)]


async def steps(n):
    for number in range(n):
        await asyncio.sleep(0)
        yield number


def main():
    strange = Strange()
    total = sum(squares(5)) + sum(value for value in squares(4) if value)
    rows = [[cell for cell in range(row)] for row in range(3)]
    closures()
    asyncio.new_event_loop().run_until_complete(later(3))
    sys.settrace(lambda *_: None)
    text = "%s %s" % (total, rows)
    sys.settrace(None)
    return strange, text


main()
