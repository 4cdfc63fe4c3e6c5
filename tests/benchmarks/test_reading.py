"""The measure of what reading alone finds: what the reader is given, and what counts as found."""

from __future__ import annotations

import json
import threading

import pytest

from benchmarks.reading import Suspect, is_named, places_changed, read_bug
from collect.agents.rollout_context import RoleModel
from collect.benchmarks.base import Instance
from collect.benchmarks.bundled import BundledBenchmark
from collect.code.patches import diff_trees
from collect.config import RuntimeConfig
from collect.models.base import Sampling
from collect.store.messages import Message, ToolCall
from tests.scripted_model import ScriptedBackend

CODE = """\
TABLE = ["a", "b"]

class Box(list):
    kind = "box"

    def __init__(self):
        super().__init__()
        self.size = 0

    def append(self, item):
        self.size += 1
        super().append(item)
"""


def bug_of(buggy: str) -> Instance:
    before, after = {"box.py": buggy.encode()}, {"box.py": CODE.encode()}
    patch = diff_trees(before, after)
    return Instance("b", "local", "python", "r", "It fails.", ("t",), (), patch, before)


@pytest.mark.parametrize(
    ("left_out", "places"),
    [
        ("        self.size += 1\n", {"Box.append"}),
        (CODE[CODE.index("    def append") :], {"Box", "Box.append"}),
        ('    kind = "box"\n', {"Box", "Box.kind"}),
        (', "b"', {"TABLE"}),
    ],
)
def test_the_place_of_an_omission(left_out: str, places: set[str]) -> None:
    found = places_changed(bug_of(CODE.replace(left_out, "")))
    assert found == {("box.py", name) for name in places}


def test_a_name_may_lack_its_outer_parts() -> None:
    places = {("box.py", "Box.append")}
    assert is_named(Suspect(path="box.py", name="append"), places)
    assert not is_named(Suspect(path="box.py", name="pend"), places)
    assert not is_named(Suspect(path="box.py", name="Box"), places)
    assert not is_named(Suspect(path="bag.py", name="Box.append"), places)


def test_a_reader_sees_no_test_and_runs_nothing() -> None:
    bug = next(each for each in BundledBenchmark().instances() if each.language == "python")
    [(path, name)] = places_changed(bug)
    suspects = [{"path": path, "name": "other"}, {"path": path, "name": name}]
    listing = Message("assistant", tool_calls=(ToolCall("1", "list_files", "{}"),))
    naming = ToolCall("2", "name_suspects", json.dumps({"suspects": suspects}))
    script = [listing, Message("assistant", tool_calls=(naming,))]
    backend = ScriptedBackend("reader", {"main": script})
    model = RoleModel(backend, Sampling())
    reading = read_bug(bug, model, RuntimeConfig(), threading.Event())
    assert (reading.rank, reading.reads) == (2, 1)
    _, messages, tools = backend.requests[-1]
    assert {tool["function"]["name"] for tool in tools} == {
        *("list_files", "grep", "read_file", "name_suspects")
    }
    assert path in messages[-1].content
    assert not any(test in messages[-1].content for test in bug.test_paths)
