"""What pytest reports of a run beside the exception that ended a test: captured logs, warnings,
exceptions in threads and finalisers, sections of plugins. It joins the program's output, in
pytest's own form."""

from __future__ import annotations

import io
import sys
import warnings
from typing import Any, Iterator

from .wire import Link
from .workspace import Workspace

MOST_CHARACTERS = 3000
"""Of one section."""
MOST_WARNINGS = 20
WARNING_CHARACTERS = 1200
"""Of one warning, which may hold a traceback."""
PENDING = (
    ("_pytest.threadexception", "thread_exceptions"),
    ("_pytest.unraisableexception", "unraisable_exceptions"),
)
"""Where pytest 8.4 and later keep, in a config's stash, what they warn of after a test."""


class Reports:
    """A plugin of pytest that gathers what it reports, and sends it once."""

    def __init__(self, link: Link, workspace: Workspace) -> None:
        self.link, self.workspace = link, workspace
        self.writer: Any = None
        """Through which the terminal reporter writes."""
        self.warnings: list[str] = []
        self.told = 0
        """Warnings that were sent."""
        self.sections: list[tuple[str, str]] = []
        self.shows_passes = False
        """Whether pytest is to show the logs of tests that pass, too."""

    def pytest_warning_recorded(self, warning_message: Any) -> None:
        self.add_warning(warning_message)

    def pytest_runtest_logreport(self, report: Any) -> None:
        shows_pass = self.shows_passes and report.when == "teardown" and report.passed
        # Without an exception of its own: some of its subtests failed.
        if shows_pass or (report.failed and isinstance(report.longrepr, str)):
            self.add_sections(report)

    def pytest_terminal_summary(self) -> Iterator[None]:
        """Around the summaries of plugins: the rest of the reporter's is told otherwise."""
        summary, nowhere = Summary(), getattr(self.writer, "_file", None)
        if nowhere is None:
            yield
            return
        self.writer._file = summary
        yield
        self.writer._file = nowhere
        self.add_section("summary", summary.getvalue())

    def watch(self, config: Any) -> None:
        """Called when pytest is configured."""
        reporter = config.pluginmanager.getplugin("terminalreporter")
        self.writer = getattr(reporter, "_tw", None)
        shown = set(config.option.reportchars)
        self.shows_passes = bool(shown & set("PA")) or is_live(config)

    def add_section(self, title: str, text: str) -> None:
        if text.strip():
            self.sections.append((title, cut(text.strip("\n"), MOST_CHARACTERS)))

    def add_sections(self, report: Any) -> None:
        """Keep what a test's report has, of pytest and of plugins."""
        found = [*report.sections, *getattr(report.longrepr, "sections", ())]
        for title, text, *_ in found:
            self.add_section(str(title), str(text))

    def add_warning(self, message: Any) -> None:
        """Keep a `warnings.WarningMessage`. pytest's own about threads have no place."""
        said = f"{message.category.__name__}: {without_hint(str(message.message))}"
        if not self.workspace.internal(message.filename):
            said = f"{self.workspace.relative(message.filename)}:{message.lineno}: {said}"
        self.warnings.append(said)

    def add_pending(self, config: Any) -> None:
        """Keep what pytest would report after the test that has failed."""
        for message in recorded():
            self.add_warning(message)
        for text in unhandled(config):
            self.warnings.append(without_hint(text))

    def send(self) -> None:
        """Send what was kept since the last call."""
        new = list(dict.fromkeys(self.warnings))[self.told :]
        self.told += len(new)
        more = len(new) - MOST_WARNINGS
        rest = [f"... {more} more"] if more > 0 else []
        self.add_section("warnings", "\n".join([*new[:MOST_WARNINGS], *rest]))
        sections, self.sections = self.sections, []
        if sections:
            self.link.report("".join(f"--- {title} ---\n{text}\n" for title, text in sections))


def is_live(config: Any) -> bool:
    """Whether pytest is to print logs at once."""
    plugin = config.pluginmanager.getplugin("logging-plugin")
    enabled = getattr(plugin, "_log_cli_enabled", None)
    return bool(enabled is not None and enabled())


def plugin_of(reports: Reports, pytest: Any) -> Reports:
    """The hooks in order; without decorators, since pytest is the program's and imported late."""
    # Inside the reporter's own, which surrounds what plugins write.
    pytest.hookimpl(hookwrapper=True, trylast=True)(Reports.pytest_terminal_summary)
    return reports


def recorded() -> list[Any]:
    """The warnings of the running test, which pytest tells of when it is over."""
    recording = getattr(warnings, "_showwarnmsg_impl", None)
    found = getattr(recording, "__self__", None)
    return list(found) if type(found) is list else []


def unhandled(config: Any) -> Iterator[str]:
    """Exceptions in threads and finalisers that pytest has not told of."""
    for module, name in PENDING:
        key = getattr(sys.modules.get(module), name, None)
        for exception in config.stash.get(key, ()) if key is not None else ():
            yield str(getattr(exception, "msg", exception))


def without_hint(text: str) -> str:
    """A warning, without pytest's hint at tracemalloc, which a debug session does not need."""
    return cut(text.partition("\nEnable tracemalloc to get")[0].strip(), WARNING_CHARACTERS)


def cut(text: str, most: int) -> str:
    """A text without its middle if it is long: a traceback says most at its ends."""
    if len(text) <= most:
        return text
    left_out = len(text) - most
    return f"{text[: most // 3]}\n... {left_out} characters cut ...\n{text[-(most - most // 3) :]}"


class Summary(io.StringIO):
    """Takes what plugins write at the end of a run, when pytest's own reporter writes to nowhere.

    `io.StringIO` keeps all that is written, so this keeps no more than is shown.
    """

    def write(self, text: str) -> int:
        if self.tell() <= MOST_CHARACTERS:
            super().write(text[: MOST_CHARACTERS + 1])
        return len(text)
