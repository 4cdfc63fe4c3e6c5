"""Why a server did not start, in plain words, from what it said."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sandbox.extras import install_command

SHOWN_LINES = 12
ERROR = r"(?m)(?:^|\] )([A-Z]\w*(?:Error|Exception): [^\n]+)"
"""At a line's beginning, or behind a logger's prefix: elsewhere an error is only mentioned."""
LINE_LIMIT = 400
"""Characters of a line of the log that an error quotes."""


@dataclass(frozen=True)
class _Cause:
    pattern: str
    """A regular expression; its first group, if any, is quoted."""
    told: str


CAUSES = (
    _Cause(
        r"(\S+ can't be started: [^\n]*)|No module named '?(vllm)",
        f"vLLM is not there: {install_command('serve')}, or set server.command",
    ),
    _Cause(
        r"(unrecognized arguments: [^\n]*|argument --\S+: [^\n]*)",
        "an option is not one of this vLLM's: look at server.arguments, and at its version",
    ),
    _Cause(
        r"invalid tool call parser: (\S+)",
        "this vLLM has no such parser: set server.tool_call_parser to one that the log names",
    ),
    _Cause(
        r"(Address already in use)",
        "the port is taken: choose another server.port, or leave it out for a free one",
    ),
    _Cause(
        r"(No available memory for the cache blocks"
        r"|larger than the (?:available|maximum)[^\n]{0,40}KV cache[^\n]{0,60})",
        "no memory is left for the context: lower server.max_context, raise "
        "server.gpu_memory_utilization, or on a CPU VLLM_CPU_KVCACHE_SPACE (GiB) under "
        "server.environment",
    ),
    _Cause(
        r"(Free memory on device[^\n]{0,200}less than desired[^\n]{0,60})",
        "another program holds the GPU's memory: end it, or lower server.gpu_memory_utilization",
    ),
    _Cause(
        r"(out of memory|OutOfMemoryError|[Cc]annot allocate memory|Not enough available memory)",
        "the memory does not suffice: lower server.max_context or server.gpu_memory_utilization, "
        "raise server.tensor_parallel, or take a smaller model",
    ),
    _Cause(
        r"(greater than the derived max_model_len \([^)]*\))",
        "the model can't read so long a context: lower server.max_context",
    ),
    _Cause(
        r"(supplied chat template[^\n]*doesn't exist)",
        "set server.chat_template to a file that is there",
    ),
    _Cause(
        r"(Loading lora \S+ failed: [^\n]*|LoRA rank \d+ is greater than[^\n]*)",
        "an adapter does not fit: look at server.adapters",
    ),
    _Cause(
        r"(Repo id must[^\n]*|Cannot find an appropriate cached snapshot[^\n]*"
        r"|Repository Not Found[^\n]*|is not a (?:local folder|valid model identifier)[^\n]*"
        r"|Invalid repository ID or local directory[^\n]*|[^\n]*\bgated repo\b[^\n]*"
        r"|Can't load the configuration[^\n]*)",
        "the model can't be had: give a model's folder, or the id of one on a hub that this "
        "machine reaches ($HF_TOKEN for a gated one)",
    ),
    _Cause(r"(Model architectures \[[^\]]*\] [^\n]*)", "this vLLM does not know the model's kind"),
    _Cause(
        r"(bfloat16 is only supported[^\n]*)", "the device has no such numbers: set server.dtype"
    ),
)


def explain(trouble: str, output: str, log: Path) -> str:
    """What went wrong, what to do, and the last lines of what the server said."""
    return "\n".join(
        [f"{trouble}: {_cause(output)}. Its log is {log}, and ends with:", *_last_lines(output)]
    )


def _cause(output: str) -> str:
    for cause in CAUSES:
        match = re.search(cause.pattern, output)
        if match is not None:
            quoted = " ".join(next((group for group in match.groups() if group), "").split())
            return f"{cause.told} ({quoted[:LINE_LIMIT]})"
    error = re.search(ERROR, output)  # the first: what follows comes of it
    return f"its first error is {error[1][:LINE_LIMIT]!r}" if error else "see what it said"


def _last_lines(output: str) -> list[str]:
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    return [f"  {line[:LINE_LIMIT]}" for line in lines[-SHOWN_LINES:]] or ["  (nothing)"]
