"""One bug as text: what an agent is told, what it works on, and what must pass."""

from __future__ import annotations

from collections.abc import Iterable

from collect.benchmarks.base import Instance


def describe(instance: Instance, gold: bool = False) -> str:
    """The bug; its gold patch only where that is asked for."""
    facts = [
        ("benchmark", instance.benchmark),
        ("language", instance.language),
        ("repository", instance.repository),
        ("category", instance.category or "-"),
        ("image", instance.image or "-"),
        ("hash", instance.hash),
    ]
    sections = [
        instance.id,
        "\n".join(f"{name:<11}{value}" for name, value in facts),
        _section("Problem statement", instance.problem_statement.splitlines()),
        _section("Files", _files(instance)),
        _section("Fail to pass", instance.fail_to_pass),
        _section("Pass to pass", instance.pass_to_pass),
    ]
    if gold:
        sections.append(_section("Gold patch", instance.gold_patch.splitlines()))
    return "\n\n".join(sections)


def _section(title: str, lines: Iterable[str]) -> str:
    text = "\n".join(f"    {line}".rstrip() for line in lines)
    return f"{title}:\n{text or '    none'}"


def _files(instance: Instance) -> Iterable[str]:
    """Paths with their number of lines; those of the tests are marked."""
    if instance.image_workspace is not None:
        yield f"in {instance.image_workspace.folder} of the image"
    for path, data in sorted(instance.files.items()):
        is_test = any(path == test or path.startswith(f"{test}/") for test in instance.test_paths)
        lines = len(data.splitlines())
        yield f"{lines:>5} {path}{'  (tests)' if is_test else ''}"
