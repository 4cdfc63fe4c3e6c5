"""Private tests as LiveCodeBench publishes them, read without running any of it.

They are JSON, or base64 of zlib of a pickle of one string of JSON. A pickle can call anything, so
here no name is ever looked up, which leaves numbers, strings and containers.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import zlib
from typing import NoReturn

from collect.errors import ConfigError

BROKEN = (
    EOFError,
    IndexError,
    KeyError,
    AttributeError,
    TypeError,
    OverflowError,
    MemoryError,
    RecursionError,
)
MAX_BYTES = 512 * 1024 * 1024
"""Of one problem's decompressed tests; more is refused."""


def decode_tests(where: str, column: str, text: str) -> object:
    """The JSON value. Raises ConfigError, also for a pickle of anything but a string."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        packed = text
    try:
        return json.loads(_unpickled(_decompressed(base64.b64decode(packed, validate=True))))
    except (binascii.Error, zlib.error, pickle.UnpicklingError, ValueError) as error:
        reason = str(error)
    except BROKEN as error:
        # What a broken pickle makes the unpickler raise.
        reason = f"not a pickle: {error}"
    raise ConfigError(
        f"{where}: column {column}: neither JSON nor base64 of zlib of a pickled string of JSON: "
        f"{reason}"
    )


class _StringsOnly(pickle.Unpickler):
    """Looks no name up, so that loading runs no code."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}, and may hold only text")

    def persistent_load(self, pid: object) -> NoReturn:
        raise pickle.UnpicklingError("the pickle refers to something outside it")


def _decompressed(data: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    result = decompressor.decompress(data, MAX_BYTES)
    if decompressor.unconsumed_tail:
        raise ValueError(f"more than {MAX_BYTES} bytes when decompressed")
    if not decompressor.eof:
        raise ValueError("the compressed data is cut off")
    return result


def _unpickled(data: bytes) -> str:
    value = _StringsOnly(io.BytesIO(data)).load()
    if not isinstance(value, str):
        raise ValueError(f"the pickle holds {type(value).__name__}, not text")
    return value
