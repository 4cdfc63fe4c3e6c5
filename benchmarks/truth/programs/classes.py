import abc
import dataclasses
import enum
import functools


def registered(*_):
    def mark(kind):
        return kind

    return mark


class Meta(type):
    def __new__(cls, name, bases, space):
        space["made"] = len(
            space)
        return super().__new__(
            cls, name, bases, space)


class Base(
    metaclass=Meta,
):
    """Has a docstring."""

    count = 0
    names = [
        "a",
        "b",
    ]
    for letter in names:
        count += 1
    if count:
        total = count * (
            2)

    def __init__(self, n=1):
        self.n = n

    @property
    def double(self):
        return self.n * 2

    @double.setter
    def double(self, value):
        self.n = value // 2

    @classmethod
    def create(
        cls,
        n,
    ):
        return cls(
            n=n,
        )

    @staticmethod
    def plain(n): return n

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return name


@registered(
    1,
    2,
)
class Derived(
    Base,
):
    def __init__(self):
        super().__init__(
            n=5,
        )

    def __add__(self, other):
        return self.n + (
            other.n)

    def __enter__(self):
        return self

    def __exit__(self, *_): return None


class Color(enum.Enum):
    RED = 1
    GREEN = (
        2
    )

    @property
    def next(self):
        return Color(
            3 - self.value)


@dataclasses.dataclass(
    order=True,
)
class Item:
    name: str
    price: int = 1
    tags: list = dataclasses.field(
        default_factory=list,
    )

    def __post_init__(self):
        self.price += 1


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    @functools.lru_cache(
        None)
    def shown(self):
        return str(
            self.area())


class Square(Shape):
    def area(self):
        return 4


def local():
    for n in range(2):
        class Inner:
            value = n

            def get(self):
                return self.value

        @registered()
        class Other(
            Inner
        ):
            pass

        Other().get()


base = Base.create(2)
base.double = 8
base.double
Base.plain(1)
base.anything
with Derived() as derived:
    derived + base
Color.RED.next
item = Item("a")
item < Item(
    "b",
    2)
Square().shown()
local()
