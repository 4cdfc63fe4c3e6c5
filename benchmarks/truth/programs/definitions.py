import dataclasses


def mark(*_):
    return lambda found: found


def define(turns):
    for turn in range(turns):
        @mark(
            1,
        )
        @dataclasses.dataclass
        class Point:
            x: int = 1
            y: list = dataclasses.field(
                default_factory=list)

            @mark(
                2)
            def size(
                self,
                by=3,
            ):
                return by + self.x

        Point().size()
        grown = map(
            lambda n: n + 1,
            [1, 2])
        list(grown)


@mark()
@mark()
@mark(1)
def main():
    define(2)


main()
