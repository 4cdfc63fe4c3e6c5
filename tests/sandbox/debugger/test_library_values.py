"""The fields of values of libraries: of arrays, tables and mocks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.debugger import DebugEvent
from tests.interpreters import Interpreter
from tests.sandbox.debugger.conftest import Workbench

TABLES = """
    import numpy, pandas
    grid = numpy.arange(6).reshape(2, 3)
    single = numpy.array(7)
    class Prices(pandas.DataFrame):
        pass
    table = Prices({"pens": [1, 2], "ink": [3, 4]})
    table.attrs["currency"] = "EUR"
    long = pandas.Series(range(1000), name="n")
    x = 1  # @x
"""
MOCKS = """
    from unittest.mock import MagicMock, Mock
    server = MagicMock(name="server")
    server.port = 80
    server.get.return_value = 3
    server.get("/", retries=2)
    x = 1  # @x
"""
PROPERTIES = "".join(
    f"    @property\n    def {name}(self): return 1 / 0\n" for name in "abcdefghij"
)
OBJECT = f"""\
class Box:
    def __init__(self):
        self.size = 2
    @property
    def _hidden(self): return 1 / 0
{PROPERTIES}
box = Box()
x = 1  # @x
"""


def shown(event: DebugEvent) -> dict[str, str]:
    assert event.error is None
    return {value.name: value.text for value in event.values}


def test_arrays_and_tables(open_bench: Callable[..., Workbench]) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("pandas")
    environment = str(Path(sys.executable).parent.parent)
    bench = open_bench(Interpreter("3.11", sys.executable, True), readable=(environment,))
    bench.script(TABLES, "x")
    fields = bench.debugger.fields
    assert shown(fields("grid")) == {
        "shape": "(2, 3)",
        "dtype": "dtype('int64')",
        "[0]": "array([0, 1, 2])",
        "[1]": "array([3, 4, 5])",
    }
    assert shown(fields("single"))["[()]"] == "7"
    assert shown(fields("table", start=2))["['ink']"].startswith("0    3\n1    4\n")
    rows = fields("long", start=900)
    assert rows.values[0].name == "[897]"
    assert rows.values[0].text.endswith("897)")
    assert any("of 1003 shown" in note for note in rows.notes)


def test_mocks(some_bench: Workbench) -> None:
    some_bench.script(MOCKS, "x")
    called = shown(some_bench.debugger.fields("server.get"))
    assert called["return_value"] == "3"
    assert called["call_count"] == "1"
    assert called["call_args"] == "call('/', retries=2)"
    server = shown(some_bench.debugger.fields("server"))
    assert server["port"] == "80"
    assert server["get"].startswith("<MagicMock name='server.get'")
    assert not any(name.startswith("_") for name in server)


def test_many_properties_share_a_line(some_bench: Workbench) -> None:
    some_bench.script(OBJECT, "x")
    assert shown(some_bench.debugger.fields("box")) == {
        "size": "2",
        "properties": "<property, not evaluated: a, b, c, d, e, f, g, h, i, j>",
    }
