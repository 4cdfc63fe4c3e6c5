"""The prompts, one text file each, with `{name}` for what is filled in."""

from collections.abc import Mapping
from importlib.resources import files


def prompt(name: str, **values: str) -> str:
    """The prompt `NAME.md` with its placeholders filled in. Other braces are left as they are."""
    text = files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    return fill(text, values).strip("\n")


def fill(text: str, values: Mapping[str, str]) -> str:
    """A text with its placeholders filled in."""
    for key, value in values.items():
        text = text.replace("{" + key + "}", value)
    return text
