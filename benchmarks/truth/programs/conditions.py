def decide(a, b):
    both = ((a
            and b)
            or not a)
    if ((a
            and b)
            or both):
        a += 1
    elif (b
            or both):
        a -= 1
    while (a > 0
           and a < 3):
        a -= 1
    assert (
        a
        or not both
        or both)
    return (a
            <= b
            < 3)


for pair in ((0, 0), (0, 1), (1, 0), (1, 1)):
    decide(*pair)
