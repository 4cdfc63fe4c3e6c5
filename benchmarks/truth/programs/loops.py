def loop(rows):
    total = 0
    for row in zip(
        rows,
        rows,
    ):
        total += sum(
            row)
    for row in rows: total += 1
    for row in rows: total += sum([n for n in rows])
    key = lambda n: -n
    made = sorted(rows, key=lambda n: n + total)
    return key(
        total,
    ), made


loop([1, 2])


def more(rows):
    total = 0
    while (
        total
        < 3
    ):
        total += 1
    total = 0
    while True:
        total += 1
        if total > 2: break
    while total:
        if total == 2:
            total -= 2
            continue
        total -= 1
    for index, row in enumerate(
            rows):
        for other in rows:
            if other == row:
                break
        else:
            total = index
        pass
    for number in (
        n
        for n in rows
        if n
    ):
        total += number
    for _ in (): total = None
    for key in {
        "a": 1,
        "b": 2,
    }:
        del key
    return total


more([1, 2, 3])
