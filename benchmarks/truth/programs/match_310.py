def kind(value):
    match value:
        case {"n": int(n)} if n > (
            3
        ):
            return "big"
        case [first, *rest]:
            return (
                first,
                rest)
        case str() | bytes():
            found = "text"
        case _:
            found = None
    return found


for value in ({"n": 5}, [1, 2], "text", {"n": 1}):
    kind(value)
