"""What a model is asked that sorts questions and failures, one text file each."""

from importlib.resources import files

from collect.agents.prompts import fill


def prompt(name: str, **values: str) -> str:
    """The prompt `NAME.md` with `{name}` filled in; what is filled in is not looked into again."""
    text = files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    return fill(text, values).strip("\n")
