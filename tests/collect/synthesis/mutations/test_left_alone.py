from __future__ import annotations

import pytest

from collect.synthesis.mutations.finding import find_mutations, find_project_mutations

ALONE = [
    "__all__ = ['a', 'b']",
    "__version__ = 1",
    "if TYPE_CHECKING:\n    a = b + c",
    "if sys.version_info >= (3, 12):\n    a = b + c",
    "if __name__ == '__main__':\n    a = b + c",
    "PY2 = sys.version_info[0] == 2",
    "try:\n    import a\nexcept ImportError:\n    a = b + c",
    "T = TypeVar('T', bound=A)",
    "logger.debug('%s', a + b, extra=True)",
    "warnings.warn('old', DeprecationWarning, stacklevel=2)",
    "assert a < b",
    "raise E(a + b)",
    "a: dict[int, b[0]]",
    "'''a + b'''",
]


@pytest.mark.parametrize("code", ALONE)
def test_what_is_no_mistake_or_never_runs(code: str) -> None:
    assert find_project_mutations(code) == []


def test_programs_in_one_file_may_be_all_under_the_main_guard() -> None:
    code = "if __name__ == '__main__':\n    a = b + c\n"
    assert find_mutations(code)
