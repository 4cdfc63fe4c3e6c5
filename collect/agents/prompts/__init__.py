"""The prompts, one text file each, with `{name}` placeholders."""

import re
from collections.abc import Mapping
from importlib.resources import files

PLACEHOLDER = re.compile(r"\{(\w+)\}")


def prompt(name: str, **values: str) -> str:
    """The prompt `NAME.md` with its placeholders filled in. Other braces stay.

    A name may include a folder: `inspectcoder/task`.
    """
    text = files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    return fill(text, values).strip("\n")


def fill(text: str, values: Mapping[str, str]) -> str:
    """A text with its placeholders filled in; inserted text is not expanded again."""
    return PLACEHOLDER.sub(lambda mark: values.get(mark[1], mark[0]), text)
