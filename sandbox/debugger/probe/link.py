"""The debuggee's end of the link to the supervisor."""

from __future__ import annotations

import io
import os
import sys
from typing import List

from .own import decode
from .wire import Json, LineReader, encode, write_all


class Link:
    """Takes requests, and answers the one that is being served."""

    def __init__(self, requests: int, answers: int) -> None:
        self.reader = LineReader(requests)
        self.lines = self.reader.wait()
        self.answers = answers
        self.request: Json = {}
        self.closed = self.sending = False
        self.stdout = sys.stdout
        """The program's own standard output, also where it replaces that."""

    def next_request(self) -> Json:
        for line in self.lines:
            try:
                self.request = decode(line.decode())
            except ValueError:
                continue  # written by the program into a descriptor that is not its own
            return self.request
        os._exit(1)  # the supervisor is gone, and with it the session

    def answer(self, fields: Json) -> None:
        """Answer the request; the program's output must have been flushed."""
        self._send({**fields, "id": self.request["id"]})

    def say(self, notes: List[str]) -> None:
        """What is left to say when the program ends, for the supervisor's last answer."""
        self._send({"notes": notes})

    def reached(self) -> None:
        """An interrupt has reached the program, whatever comes of it; in its handler."""
        if not self.sending:
            self._send({"reached": True})

    def paused(self) -> None:
        """The program has stopped, and code of its own is run to show it: not for long."""
        self._send({"paused": True})

    def streams(self) -> List[object]:
        """All that may hold output of the program back."""
        return list({id(s): s for s in (sys.stdout, sys.stderr, self.stdout)}.values())

    def plain_streams(self) -> bool:
        """Whether no stream is the program's own making."""
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
            os._exit(1)  # forked off by an evaluation, which has ended here: only one goes on
        # After a line end, for the program may have written into the descriptor.
        line = b"\n" + encode({**fields, "token": self.request["token"]})
        self.sending = True
        try:
            write_all(self.answers, line)
        except OSError:
            os._exit(1)  # the program closed the link: there is nobody to debug it for
        finally:
            self.sending = False
