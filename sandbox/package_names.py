"""Names of Python packages that configs and bug records pass to pip.

A record's author chooses them, and pip runs outside the sandbox: a path, a URL or an option would
make pip build a project there, which runs the project's code.
"""

from __future__ import annotations

from typing import Annotated

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import AfterValidator


def require_package_name(text: str) -> str:
    """Returns the text. Raises ValueError unless it is a package name, with optional extras,
    version bounds and markers (PEP 508)."""
    try:
        is_name = Requirement(text).url is None
    except InvalidRequirement:
        is_name = False
    if not is_name:
        raise ValueError(
            f"{text!r} is not the name of a package: write its name, with version bounds if they "
            "matter (`numpy>=2`), not options of pip, paths or URLs"
        )
    return text


PackageName = Annotated[str, AfterValidator(require_package_name)]
"""A requirement that may be passed to pip."""
