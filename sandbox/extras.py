"""How StepInto's optional parts are installed, for messages that ask for one."""

from __future__ import annotations


def install_command(extra: str) -> str:
    """The command for one of pyproject.toml's extras. It is for StepInto's checkout, since no
    package index has StepInto."""
    # vLLM wants versions of its own, which are not those that StepInto is tested with.
    constraints = "" if extra == "serve" else "-c constraints.txt "
    return f"pip install {constraints}-e '.[{extra}]' in StepInto's checkout"
