import operator
from collections import namedtuple

Pair = namedtuple("Pair", "left right")
LIMIT = (
    3
)
NAMES = {
    "one": 1,
    "two": 1
    + 1,
    **{"three": 3},
}


def called(*values, **named):
    return values, named


def arithmetic(a, b):
    total = a + b
    total += (
        a * b
        - b
    )
    total = -total
    total = total if total > 0 else (
        -total
        if total
        else 1
    )
    shifted = total << 1 | a & b
    ratio = (a
             / (b or 1))
    return total, shifted, ratio


def compared(a, b):
    if a < b < LIMIT:
        return 1
    if not (
        a < b
        <= LIMIT
    ):
        return 2
    found = (
        a in (
            1,
            2,
        )
        and b not in [
            3,
        ]
    )
    same = a is b or a == b
    return found, same


def texts(a):
    plain = "a" "b" \
        "c"
    shown = f"{a} {a!r:>5}"
    long = (
        f"{a}"
        f"{plain}"
        "end"
    )
    many = """
    lines
    """
    joined = ", ".join(
        str(n)
        for n in (a, a)
    )
    return shown, long, many, joined


def stored(a):
    pair = Pair(
        left=a,
        right=a + 1,
    )
    left, (right, *rest) = a, (
        a, a, a
    )
    first = last = rest
    items = [a, a,
             a]
    items[0] = items[
        1
    ] = 5
    items[1:2] = [
        7,
        8,
    ]
    del items[
        0
    ]
    (n := a)
    if (m := a + n) > 1: n = m
    lookup = {}
    lookup["a"], lookup["b"] = 1, 2
    lookup[
        "c"
    ] = lookup.get(
        "a",
    )
    counted: int = 0
    declared: str
    global LAST
    LAST = pair
    return first, last, counted, left, right, operator.itemgetter(
        0,
    )(items)


def calls(a):
    called(
        a,
        *[a,
          a],
        key=a,
        **NAMES,
    )
    chained = (
        "text"
        .upper()
        .replace(
            "T",
            "t",
        )
        .split("t")
    )
    return called(called(
        called(a)
    ), key=[
        a
    ]), chained


def lambdas(a):
    one = lambda n: n + 1
    two = lambda n: (
        n
        * 2
    )
    three = (lambda: a)()
    by = sorted([3, 1, 2], key=lambda n: -n)
    mapped = list(map(
        lambda n: one(n),
        by,
    ))
    return two(
        one(a)
    ), three, mapped


def closures():
    count = 0

    def add(by=1):
        nonlocal count
        count += by
        return count

    add()
    add(
        by=2,
    )
    return count


for one, two in ((1, 2), (2, 1), (0, 0)):
    arithmetic(one, two)
    compared(one, two)
texts(1); stored(2)
calls(3)
lambdas(4)
closures()
