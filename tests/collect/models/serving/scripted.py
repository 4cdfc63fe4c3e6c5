"""A server with the command line of `vllm serve`, which does what its environment says.

It is run as a program of its own, with the standard library alone: `python scripted.py serve MODEL
--served-model-name NAME --host HOST --port PORT ...`. Each start adds a line of JSON with its
arguments and process ids to the file `SCRIPT_STARTS`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

STATE = {"requests": 0}
CALL = {"name": "evaluate", "arguments": '{"expression": "total"}'}


def main() -> None:
    options = _parser().parse_known_args()[0]
    starts = Path(os.environ["SCRIPT_STARTS"])
    number = len(starts.read_text().splitlines()) + 1 if starts.exists() else 1
    pids = [os.getpid()]
    if "SCRIPT_CHILD" in os.environ:
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        pids.append(child.pid)
    with starts.open("a") as file:
        file.write(json.dumps({"arguments": sys.argv[1:], "pids": pids}) + "\n")
    if "SCRIPT_STUBBORN" in os.environ:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if says := os.environ.get("SCRIPT_SAYS"):
        print(says, flush=True)
    if number in map(int, os.environ.get("SCRIPT_DIES_AT_STARTS", "").split()):
        sys.exit(1)
    if "SCRIPT_NEVER_READY" in os.environ:
        time.sleep(1000)
    served = [options.served_model_name, *(each.split("=")[0] for each in options.lora_modules)]
    _Handler.served, _Handler.start = served, number
    ThreadingHTTPServer((options.host, options.port), _Handler).serve_forever()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--lora-modules", nargs="*", default=[])
    return parser


class _Handler(BaseHTTPRequestHandler):
    served: list[str]
    start: int

    def do_GET(self) -> None:
        if self.path == "/health":
            self._send(200, {})
        else:
            self._send(200, {"object": "list", "data": [{"id": name} for name in self.served]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        STATE["requests"] += 1
        if str(STATE["requests"]) == os.environ.get("SCRIPT_DIES_AT_REQUEST") and self.start == 1:
            print("engine died", flush=True)
            os._exit(9)
        if request["model"] not in self.served:
            self._send(404, {"error": {"message": f"The model {request['model']} does not exist"}})
        elif request.get("tools") and "SCRIPT_REFUSES_TOOLS" in os.environ:
            self._send(400, {"error": {"message": '"auto" tool choice requires a parser'}})
        else:
            self._send(200, _completion(request, os.environ.get("SCRIPT_WRITES")))

    def _send(self, status: int, body: dict[str, Any]) -> None:
        encoded = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """The log is for what the script says."""


def _completion(request: dict[str, Any], writes: str | None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": writes or f"I am {request['model']}"}
    if request.get("tools") and writes is None:
        call = {"id": "1", "type": "function", "function": CALL}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}


if __name__ == "__main__":
    main()
