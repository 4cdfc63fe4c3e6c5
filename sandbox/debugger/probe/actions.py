"""The requests that inspect or change a stopped program."""

from __future__ import annotations

import sys
import types
from typing import Callable, Dict, List

from .breakpoints import BreakpointTable
from .code_running import run_code
from .describing import Describer
from .evaluation import IDLE, Evaluator
from .fields import fields_of
from .frames import FrameAt, frame_locals
from .interpreter import import_standard
from .link import Link
from .tracer import Tracer
from .wire import Interrupted, Json, Refusal


class Actions:
    """Carries out one request at a time, on the frames of one stop."""

    def __init__(
        self,
        link: Link,
        table: BreakpointTable,
        tracer: Tracer,
        evaluator: Evaluator,
        describer: Describer,
    ) -> None:
        self.link = link
        self.table = table
        self.tracer = tracer
        self.evaluator = evaluator
        self.describer = describer
        self.frames: List[FrameAt] = []
        self.handlers: Dict[str, Callable[[Json], Json]] = {
            "locals": self._locals,
            "stack": self._stack,
            "threads": self._threads,
            "evaluate": self._evaluate,
            "fields": self._fields,
            "run_code": self._run_code,
            "set_breakpoint": self._set_breakpoint,
            "remove_breakpoint": self._remove_breakpoint,
            "list_breakpoints": self._list_breakpoints,
        }

    def handle(self, action: str, arguments: Json) -> Json:
        """The fields of the answer, even if the request fails."""
        try:
            return self.handlers[action](arguments)
        except Refusal as refusal:
            return {"error": {"kind": "bad_request", "message": str(refusal)}}
        except Interrupted:
            self.evaluator.phase = IDLE
            message = "it did not end within {:g} s and was interrupted".format(
                self.link.request["timeout"]
            )
            return {"error": {"kind": "timeout", "message": message}}
        except BaseException:
            self.evaluator.phase = IDLE
            message = import_standard("traceback").format_exc()
            return {"error": {"kind": "internal", "message": message}}

    def _frame(self, arguments: Json) -> types.FrameType:
        index = arguments.get("frame", 0)
        if not self.frames:
            raise Refusal("the program has no frame to look at here")
        if not 0 <= index < len(self.frames):
            message = "there is no frame {}; the stack has frames 0 to {}"
            raise Refusal(message.format(index, len(self.frames) - 1))
        return self.frames[index].frame

    def _locals(self, arguments: Json) -> Json:
        frame = self._frame(arguments)
        items = [
            (name, value)
            for name, value in frame_locals(frame).items()
            if name.isidentifier() and not (name.startswith("__") and name.endswith("__"))
        ]
        if frame.f_locals is frame.f_globals:
            # By `type`, since `isinstance` would run a `__class__` of the program's.
            items = [item for item in items if not issubclass(type(item[1]), types.ModuleType)]
        start = arguments.get("start", 0)
        return self.describer.page(items[start:], start, len(items))

    def _stack(self, arguments: Json) -> Json:
        return self.describer.stack(self.frames, arguments.get("start", 0))

    def _threads(self, arguments: Json) -> Json:
        return self.describer.threads(self.frames)

    def _evaluate(self, arguments: Json) -> Json:
        expression = arguments["expression"].strip()
        value, error = self.evaluator.evaluate(expression, self._frame(arguments))
        if error:
            return error
        shown, next_start = self.describer.value(expression, value, arguments.get("start", 0))
        return {"values": [shown], **({} if next_start is None else {"next_start": next_start})}

    def _fields(self, arguments: Json) -> Json:
        expression = arguments["expression"].strip()
        value, error = self.evaluator.evaluate(expression, self._frame(arguments))
        if error:
            return error
        start, count = arguments.get("start", 0), self.describer.limits["max_values"]
        found, error = self.evaluator.guarded(lambda: fields_of(value, start, count))
        return error or self.describer.page(found[0], start, found[1])

    def _run_code(self, arguments: Json) -> Json:
        frame, stdout = self._frame(arguments), self.link.stdout
        # The code's output belongs to the answer, even if the program captures its own output.
        printed, sys.stdout = sys.stdout, stdout
        try:
            notes, error = self.evaluator.guarded(lambda: run_code(arguments["code"], frame))
            return error or {"notes": notes}
        finally:
            if sys.stdout is stdout:
                sys.stdout = printed

    def _set_breakpoint(self, arguments: Json) -> Json:
        point, notes = self.table.add(arguments)
        self.tracer.refresh()
        return {"breakpoints": [self.table.describe(point)], "notes": notes}

    def _remove_breakpoint(self, arguments: Json) -> Json:
        self.table.remove(arguments["number"])
        self.tracer.refresh()
        return {}

    def _list_breakpoints(self, arguments: Json) -> Json:
        """Empty, since every answer includes the changed breakpoints."""
        return {}
