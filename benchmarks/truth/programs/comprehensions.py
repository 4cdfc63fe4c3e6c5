import asyncio


async def numbers():
    for n in range(3):
        yield n


async def main(values):
    one = [n for n in values for m in values]
    two = [
        n + 1
        for n in values
        if n != 2
    ]
    made = {
        n: m
        for n, m in zip(
            values,
            values)
        if (n
            and m != 2)
    }
    some = sum(
        n
        for n in values)
    later = [
        n
        async for n in numbers()
        if n]
    async for n in numbers():
        later.append(n)
    return [one, two,
            made, some,
            later]


asyncio.run(main([1, 2, 3]))
