"""Keys that a server echoes are masked in all that is read of it, in their usual encodings.

That is done to the bytes of a reply, before anything else reads them: so messages, tool calls,
errors, logs, journals and rows hold none. A server that is out to hide a key has other ways.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from functools import partial

MASK = "[key]"
SHORTEST = 8
"""Characters of a key: a shorter one, such as the `EMPTY` of a server that needs none, is a word
that a model may say."""
Mask = Callable[[str], str]


def key_mask(keys: Iterable[str | None]) -> Mask:
    """What replaces these keys in a text: as they are, with JSON's or URLs' escapes, in
    hexadecimal digits, and in base64, also with a user before them as in HTTP's Basic."""
    forms = [form for key in keys if key and len(key) >= SHORTEST for form in _forms(key)]
    if not forms:
        return str
    return partial(re.compile("|".join(forms)).sub, MASK)


def _forms(key: str) -> Iterable[str]:
    yield "".join(map(_escaped_or_not, key))
    data = key.encode("utf-8", "surrogateescape")
    yield f"(?i:{data.hex()})"
    for offset in range(3):
        # Digits of 6 bits each; the outermost may hold bits of what stands beside the key, too.
        packed = base64.b64encode(bytes(offset) + data + bytes(2)).decode()
        first, last = -(-offset * 8 // 6), (offset + len(data)) * 8 // 6
        yield "".join(map(_digit, packed[first:last]))


def _escaped_or_not(character: str) -> str:
    """As it is or as an escape; backslashes may be doubled, and percents be escaped, again."""
    code = "".join(f"%(?:25){{0,4}}{byte:02x}" for byte in character.encode("utf-8", "replace"))
    plain = f"\\\\{{0,8}}{re.escape(character)}" if character in '/"\\' else re.escape(character)
    return f"(?:{plain}|(?i:\\\\{{1,8}}u{ord(character):04x}|{code}))"


def _digit(digit: str) -> str:
    """Of base64, in both of its alphabets."""
    alike = {"+": "+-", "/": "/_"}.get(digit, digit)
    return f"(?:{'|'.join(map(_escaped_or_not, alike))})"
