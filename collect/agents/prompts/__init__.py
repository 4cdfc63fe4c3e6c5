"""The prompts, one text file each, with `{name}` for what is filled in."""

import re
from collections.abc import Mapping
from importlib.resources import files

PLACEHOLDER = re.compile(r"\{(\w+)\}")


def prompt(name: str, **values: str) -> str:
    """The prompt `NAME.md` with its placeholders filled in. Other braces are left as they are.

    A name may have a folder before it: `inspectcoder/task`.
    """
    text = files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    return fill(text, values).strip("\n")


def fill(text: str, values: Mapping[str, str]) -> str:
    """A text with its placeholders filled in; what is filled in is not looked into again."""
    return PLACEHOLDER.sub(lambda mark: values.get(mark[1], mark[0]), text)
