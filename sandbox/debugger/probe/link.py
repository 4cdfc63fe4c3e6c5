"""The debuggee's end of the link to the supervisor."""

from __future__ import annotations

import json
import os
import sys
from typing import List

from .wire import Json, LineReader, encode, write_all


class Link:
    """Takes requests, and answers the one that is being served."""

    def __init__(self, requests: int, answers: int) -> None:
        self.reader = LineReader(requests)
        self.lines = self.reader.wait()
        self.answers = answers
        self.request: Json = {}
        self.stdout = sys.stdout
        """The program's own standard output, also where it replaces that."""

    def next_request(self) -> Json:
        for line in self.lines:
            self.request = json.loads(line)
            return self.request
        os._exit(1)  # the supervisor is gone, and with it the session

    def answer(self, fields: Json) -> None:
        self._flush()
        try:
            write_all(self.answers, encode({**fields, "id": self.request["id"]}))
        except OSError:
            os._exit(1)  # the program closed the link: there is nobody to debug it for

    def say(self, notes: List[str]) -> None:
        """What is left to say when the program ends, for the supervisor's last answer."""
        write_all(self.answers, encode({"notes": notes}))

    def close(self) -> None:
        for fd in (self.reader.fd, self.answers):
            try:
                os.close(fd)
            except OSError:
                continue

    def _flush(self) -> None:
        for stream in {id(s): s for s in (sys.stdout, sys.stderr, self.stdout)}.values():
            try:
                stream.flush()
            except Exception:
                continue  # the program closed or replaced it
