def last(n):
    for item in range(n):
        try:
            if item == 1:
                continue
            if item == 2:
                raise ValueError(
                    item)
            total = item
        except (
            ValueError,
            KeyError,
        ) as error:
            total = str(
                error)
            break
        else:
            total = [
                item,
            ]
        finally:
            max(
                item,
                n)
            for turn in range(2):
                item += turn
    try:
        try:
            return total
        finally:
            total = 2
    finally:
        total = 3


last(3)
