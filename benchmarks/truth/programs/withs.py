import asyncio


class Lock:
    def __enter__(self):
        return 1

    def __exit__(self, *error):
        return True

    async def __aenter__(self):
        await asyncio.sleep(0)
        return 1

    async def __aexit__(self, *error):
        await asyncio.sleep(0)


def locked(items):
    for item in items:
        with Lock() as one, \
                Lock() as two:
            if item == 2:
                continue
            item += one + two
        with Lock():
            raise ValueError(
                item
            )
        with Lock(): item += 1
    while True:
        with Lock():
            item -= 3
            if item < 0:
                break
    with Lock() as one:
        return (
            one
            + item)


async def awaited():
    for item in range(2):
        async with Lock() as one:
            item += one
    async with Lock():
        return await asyncio.gather(
            asyncio.sleep(0),
            asyncio.sleep(0))


locked([1, 2, 3])
asyncio.run(awaited())
