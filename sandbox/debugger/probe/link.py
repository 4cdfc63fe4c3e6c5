"""The debuggee's end of the link to the supervisor."""

from __future__ import annotations

import io
import os
import sys
from typing import List

from .own import decode
from .wire import Json, LineReader, encode, write_all


class Link:
    """Receives requests, and answers the current one."""

    def __init__(self, requests: int, answers: int) -> None:
        self.reader = LineReader(requests)
        self.lines = self.reader.wait()
        self.answers = answers
        self.request: Json = {}
        self.closed = self.sending = False
        self.stdout = sys.stdout
        """The program's own standard output, even if the program replaces it."""

    def next_request(self) -> Json:
        for line in self.lines:
            try:
                self.request = decode(line.decode())
            except ValueError:
                continue  # written by the program into the debugger's descriptor
            return self.request
        os._exit(1)  # without the supervisor there is no session

    def answer(self, fields: Json) -> None:
        """Answer the request; the program's output must have been flushed."""
        self._send({**fields, "id": self.request["id"]})

    def say(self, notes: List[str]) -> None:
        """Send notes for the supervisor's last answer, when the program ends."""
        self._send({"notes": notes})

    def reached(self) -> None:
        """Called in the handler: an interrupt has reached the program, whatever its effect."""
        if not self.sending:
            self._send({"reached": True})

    def paused(self) -> None:
        """The program has stopped, and its code runs only to show values, briefly."""
        self._send({"paused": True})

    def streams(self) -> List[object]:
        """All streams that may buffer the program's output."""
        return list({id(s): s for s in (sys.stdout, sys.stderr, self.stdout)}.values())

    def plain_streams(self) -> bool:
        """Whether no stream is of a class of the program's."""
        return all(type(stream) is io.TextIOWrapper for stream in self.streams())

    def close(self) -> None:
        """In a forked process: leave the link to the parent."""
        self.closed = True
        for fd in (self.reader.fd, self.answers):
            try:
                os.close(fd)
            except OSError:
                continue

    def _send(self, fields: Json) -> None:
        if self.closed:
            os._exit(1)  # an evaluation forked this process and has ended in it: only one goes on
        # After a line end, since the program may have written into the descriptor.
        line = b"\n" + encode({**fields, "token": self.request["token"]})
        self.sending = True
        try:
            write_all(self.answers, line)
        except OSError:
            os._exit(1)  # the program closed the link, so nobody can debug it
        finally:
            self.sending = False
