"""Reasoning that a server has left in a reply's text, between tags such as `<think>`."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAME = r"(?:\w+:)?(?:think|thinking|thoughts?|reasoning)"
_TAG = re.compile(
    rf"(?<![`'\"])(?:(?P<opening><{_NAME}>|\[THINK\]|◁think▷)|</{_NAME}>|\[/THINK\]|◁/think▷)"
    r"(?![`'\"])",
    re.IGNORECASE,
)
"""A tag that no quotes enclose: a text about tags quotes them."""
_Thought = tuple[int, int, int, int]
"""Where a thought begins and ends, without its tags and with them: the outer first and last."""


def split_thinking(text: str) -> tuple[str, str]:
    """The reasoning in a reply's text, and the rest, which is the unchanged text if there is none.

    The opening tag may be missing if the prompt has ended in it, the closing one if the reply was
    cut.
    """
    thoughts, said, position = list[str](), list[str](), 0
    for start, inner_start, inner_end, end in _thoughts(text):
        thoughts.append(text[inner_start:inner_end].strip())
        said.append(text[position:start])
        position = end
    if not thoughts:
        return "", text
    said.append(text[position:])
    return "\n\n".join(filter(None, thoughts)), "".join(said).lstrip()


def _thoughts(text: str) -> Iterator[_Thought]:
    opening: re.Match[str] | None = None
    closing: re.Match[str] | None = None
    depth, position, speaks = 0, 0, False
    for number, tag in enumerate(_TAG.finditer(text)):
        if opening is not None:
            depth += 1 if tag["opening"] else -1
            closing = closing if tag["opening"] else tag
            if depth == 0:
                yield opening.start(), opening.end(), tag.start(), tag.end()
                opening, closing, position = None, None, tag.end()
        elif tag["opening"] is None:
            if number == 0 and not _is_in_sentence(text, tag):
                yield 0, 0, tag.start(), tag.end()
                position = tag.end()
        elif _begins_line(text, position, tag.start()):
            speaks = speaks or bool(text[position : tag.start()].strip())
            opening, depth = tag, 1
    if opening is not None and not speaks:
        # The thoughts name tags without quotes, or the reply was cut in them.
        inner_end, end = closing.span() if closing is not None else (len(text), len(text))
        yield opening.start(), opening.end(), inner_end, end


def _is_in_sentence(text: str, tag: re.Match[str]) -> bool:
    return (text[tag.start() - 1 : tag.start()], text[tag.end() : tag.end() + 1]) == (" ", " ")


def _begins_line(text: str, position: int, tag: int) -> bool:
    """Whether only blanks stand before a tag on its line, or after the last thought."""
    while tag > position and text[tag - 1] in " \t":
        tag -= 1
    return tag == position or text[tag - 1] == "\n"
