import asyncio


def numbers(n):
    while n:
        got = yield n
        if got:
            n = got
        else: n -= 1
    return "done"


def chained(n):
    yield 0
    result = yield from numbers(
        n)
    try:
        yield (
            result,
            n,
        )
    finally:
        n = None
    yield from (
        number
        for number in range(2)
    )


def closed():
    try:
        yield 1
        yield 2
    finally:
        cleaned = True
        del cleaned


def sent():
    generator = numbers(2)
    next(generator)
    generator.send(3)
    for number in generator: last = number
    generator = closed()
    next(generator)
    generator.close()
    return last


async def slow(n):
    await asyncio.sleep(0)
    return n


async def produced(n):
    for number in range(n):
        yield number
        await asyncio.sleep(0)


class Resource:
    async def __aenter__(self):
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, kind, error, trace):
        await asyncio.sleep(0)
        return kind is KeyError

    async def get(self, n):
        return await slow(
            n)


async def used():
    total = 0
    async for number in produced(3):
        total += number
    total += 1
    async for number in produced(
        2
    ):
        if number: continue
        async with Resource() as resource:
            total += await resource.get(number)
    async with Resource() as one, \
            Resource() as two:
        total += await one.get(1) + (
            await two.get(2))
    async with Resource():
        raise KeyError(
            "lost")
    first, second = await asyncio.gather(
        slow(1),
        slow(2),
    )
    try:
        await asyncio.wait_for(slow(1), 60)
    finally:
        total += first
    task = asyncio.ensure_future(slow(second))
    total += await task
    return total


async def main():
    result = await used()
    listed = [
        await slow(n)
        for n in range(2)
    ]
    return result, listed


for item in chained(2):
    pass
sent()
asyncio.run(main())
