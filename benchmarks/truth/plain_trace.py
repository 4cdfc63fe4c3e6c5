"""Every line event of a program, by the interpreter's own means; prints them as JSON.

    python plain_trace.py PROGRAM settrace|monitoring

Standard library only, for any CPython from 3.8 on.
"""

from __future__ import annotations

import dis
import json
import sys
import types
from collections.abc import Iterator
from typing import Any

SHOWN = (bool, int, float, str, bytes, type(None))


def values(variables: dict[str, Any]) -> str:
    """The plain values among variables, as the watched expression has them."""
    shown = sorted(item for item in variables.items() if type(item[1]) in SHOWN)
    return "; ".join("{}={!r}".format(*item) for item in shown if item[0][:2] != "__")


def key(code: types.CodeType) -> tuple[str, int]:
    return code.co_name, code.co_firstlineno


def nested(code: types.CodeType, depth: int) -> Iterator[tuple[tuple[str, int], int]]:
    """All functions in a module's code; of two with one name and line the outer one comes last."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from nested(constant, depth + 1)
    yield key(code), depth


class Trace:
    """The events of one program, in order."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.frames: list[types.FrameType] = []
        """All of them, kept so that no id is used again."""
        self.numbers: dict[int, int] = {}
        self.events: list[dict[str, Any]] = []
        self.instructions: dict[int, dict[int, dict[str, Any]]] = {}

    def settrace(self, frame: types.FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != self.path:
            return None
        if event == "line":
            self.add(frame)
        elif event == "call":
            self.number(frame)
        return self.settrace

    def monitor(self) -> None:
        monitoring: Any = vars(sys)["monitoring"]
        monitoring.use_tool_id(0, "truth")
        monitoring.register_callback(0, monitoring.events.LINE, self.on_line)
        monitoring.set_events(0, monitoring.events.LINE)

    def on_line(self, code: types.CodeType, _: int) -> None:
        if code.co_filename == self.path:
            self.add(sys._getframe(1))

    def number(self, frame: types.FrameType) -> int:
        if id(frame) not in self.numbers:
            self.numbers[id(frame)] = len(self.frames)
            self.frames.append(frame)
        return self.numbers[id(frame)]

    def add(self, frame: types.FrameType) -> None:
        self.events.append(
            {
                "frame": self.number(frame),
                "line": frame.f_lineno,
                "offset": frame.f_lasti,
                "values": values(frame.f_locals),
                **self.instruction(frame.f_code, frame.f_lasti),
            }
        )

    def instruction(self, code: types.CodeType, offset: int) -> dict[str, Any]:
        """The name of an instruction, and from 3.11 on its place in the source."""
        if id(code) not in self.instructions:
            found = self.instructions[id(code)] = {}
            for at in dis.get_instructions(code):
                place = getattr(at, "positions", None)
                found[at.offset] = {"name": at.opname, "place": place and list(place)}
        return self.instructions[id(code)][offset]

    def codes(self, code: types.CodeType) -> list[dict[str, Any]]:
        """The function of each frame, and in how many others it is in a module's code."""
        depths = dict(nested(code, 0))
        codes = [frame.f_code for frame in self.frames]
        return [{"code": key(each), "depth": depths[key(each)]} for each in codes]


def main(path: str, means: str) -> None:
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    trace = Trace(path)
    if means == "settrace":
        sys.settrace(trace.settrace)
    else:
        trace.monitor()
    exec(code, module.__dict__)
    sys.settrace(None)
    print(json.dumps({"events": trace.events, "frames": trace.codes(code)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
