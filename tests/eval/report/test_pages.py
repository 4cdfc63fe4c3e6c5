"""The pages of a run: what they tell, and that nothing printed gets out of its place."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from collect.console import HIDDEN
from collect.errors import ConfigError
from collect.questions.grounding import ClaimKind, GroundedClaim, Support
from collect.store.messages import Message, ToolCall
from collect.store.records import MessageRow
from collect.store.run_store import RunStore, plain
from eval.report.facts import Outcome, Selection, sources_of
from eval.report.index import html_of
from eval.report.pages import ReportPaths, ReportRequest, marked, write_report
from eval.report.rendering import MOST_CHARACTERS, highlighted
from tests.eval.report.pages import hostile_run
from tests.eval.report.reading import broken_links, pages_of, read
from tests.records import make_conversations, make_rollout

GONE = "This report is being written"


def report(
    run: Path, selection: Selection | None = None, output: Path | None = None
) -> ReportPaths:
    """The report of a run, in its own folder where no other is named."""
    output = output or run / "report"
    return write_report(
        ReportRequest("test-run", run, sources_of(run), output, selection or Selection())
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three rollouts."""
    folder = tmp_path_factory.mktemp("run")
    hostile_run(folder)
    return folder


def test_hostile_text_stays_text(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "report"
    paths = report(run, output=output)
    assert (paths.rollouts, paths.matching, paths.pages) == (3, 3, 5)
    pages = pages_of(output)
    assert len(pages) == 6
    for path, page in pages.items():
        assert page.count("img") == 0
        assert page.count("style") == 1
        assert page.count("script") == (path.name == "index.html")
        assert not {name for name in page.attributes if name.startswith("on")}
        assert "style" not in page.attributes
        assert not HIDDEN.search(path.read_text(encoding="utf-8"))
        assert len(set(page.ids)) == len(page.ids)
    hostile = next(page for page in pages.values() if "{{ 7*7 }}" in page.text)
    assert "\\x1b[2J\\x00\\x07\\u202e\\u2066\\u200b&lt;" in hostile.text
    assert broken_links(output) == []


def test_what_a_conversation_s_page_tells(tmp_path: Path) -> None:
    rollout = make_rollout()
    store = RunStore.open(tmp_path)
    store.add(rollout, make_conversations(rollout))
    store.close()
    report(tmp_path)
    folder = tmp_path / "report" / "conversations"
    main, sub = (read(folder / f"collect-{rollout.rollout_id}-{index}.html") for index in range(2))
    assert f"collect-{rollout.rollout_id}-1.html" in main.links
    assert "Lines: +1 -1" in main.text
    assert "arguments are not a JSON object" in main.text
    assert "Reasoning Look at the state first." in main.text
    assert ("span", {"class": "added"}) in main.tags
    assert f"collect-{rollout.rollout_id}-0.html" in sub.links
    assert f"collect-{rollout.rollout_id}-0.html#outcome" in sub.links
    assert (
        "Paused at ledger/cache.py:14 in LruCache.put (breakpoint 1, hit 2, in thread MainThread)"
        in sub.text
    )
    assert "Error (not_allowed): the program has ended" in sub.text
    assert "Allowed now: restart, close" in sub.text
    assert "if key == 'a' , watching key , hit 2 times" in sub.text
    assert "size NameError: name 'size' is not defined failed" in sub.text
    assert "Collected, before the line ran Hit Place key 1 ledger/cache.py:14 'a' 2" in sub.text
    assert ("mark", {"class": "observed", "title": "observed"}) in sub.tags


def test_pages_lead_to_each_other_and_repeats_to_the_first(tmp_path: Path) -> None:
    long = "a line of a file\n" * 20
    store = RunStore.open(tmp_path)
    for number in range(2):
        rollout = make_rollout(f"bug-{number}", sub_calls=0)
        (main,) = make_conversations(rollout)
        steps = [
            MessageRow(message)
            for call_id in ("first", "second")
            for message in (
                Message("assistant", tool_calls=(ToolCall(call_id, "bash", '{"command": "ls"}'),)),
                Message("tool", long, tool_call_id=call_id),
            )
        ]
        store.add(rollout, [dataclasses.replace(main, messages=tuple(steps), events=())])
    store.close()
    report(tmp_path)
    first, second = (
        read(tmp_path / "report" / "conversations" / f"collect-{row.rollout_id}-0.html")
        for row in (make_rollout(f"bug-{number}", sub_calls=0) for number in range(2))
    )
    assert {"Next →", "← Previous"} & {*first.words} == {"Next →"}
    assert {"Next →", "← Previous"} & {*second.words} == {"← Previous"}
    assert first.text.count("a line of a file") < 40
    assert "The same answer as before" in first.text
    assert "#m-1" in first.links
    assert broken_links(tmp_path / "report") == []


def test_code_is_coloured_and_stays_as_it_was() -> None:
    text = "def f(x):\n    return '<b>' + x  # \x1b\n\n"
    html = highlighted(text, "a/b.py")
    assert '<span class="k">def</span>' in html
    assert html.striptags().count("return") == 1
    assert "&lt;b&gt;" in html
    assert "\\x1b" in html
    assert html.count("\n") == text.count("\n")
    for name in ("", "x", "x.unknown"):
        assert highlighted("<b>", name) == "&lt;b&gt;"
    assert "span" not in highlighted(text * 1000, "b.py")


@pytest.mark.parametrize(
    ("claim", "text", "shown"),
    [
        ("n = 5", "n = 5 in 1.5.0, 0.5, -5, cart.py:5, 5/8 and 5.", ["n = 5", "5"]),
        ("x = 1.5", "1.5.0 is not 1.5, nor 1.55", ["1.5"]),
        ("cart.py:4", "cart.py:42, cart.py:4.", ["cart.py:4"]),
        ("m = -5", "m = -5, 3-5", ["m = -5"]),
    ],
)
def test_digits_of_something_else_are_no_claim(claim: str, text: str, shown: list[str]) -> None:
    pieces = marked(text, [GroundedClaim(ClaimKind.VALUE, claim, Support.OBSERVED)])
    assert [piece for piece, support in pieces if support] == shown
    assert "".join(piece for piece, _ in pieces) == text


def test_the_current_line_is_marked(tmp_path: Path) -> None:
    rollout = make_rollout()
    main, sub = make_conversations(rollout)
    lines = ("        13  first", "-> *    14  second()", "   *    15")
    stop = dataclasses.replace(sub.events[0].event, source=lines)
    events = (dataclasses.replace(sub.events[0], event=stop),)
    store = RunStore.open(tmp_path)
    store.add(rollout, [main, dataclasses.replace(sub, events=events)])
    store.close()
    report(tmp_path)
    page = read(tmp_path / "report" / "conversations" / f"collect-{rollout.rollout_id}-1.html")
    assert [found.get("aria-current") for tag, found in page.tags if tag == "span"].count(
        "true"
    ) == 1
    assert "→ ● 14 second ()" in page.text
    assert "● 15" in page.text


def test_megabytes_are_folded_and_cut(tmp_path: Path) -> None:
    rollout = make_rollout(sub_calls=0)
    (main,) = make_conversations(rollout)
    huge = MessageRow(Message("user", "x" * 5_000_000))
    store = RunStore.open(tmp_path)
    store.add(rollout, [dataclasses.replace(main, messages=(huge, *main.messages))])
    store.close()
    report(tmp_path)
    path = tmp_path / "report" / "conversations" / f"collect-{rollout.rollout_id}-0.html"
    assert path.stat().st_size < 2 * MOST_CHARACTERS
    assert f"{5_000_000 - MOST_CHARACTERS:,} more characters are only in" in read(path).text


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), 3),
        (Selection(limit=1), 1),
        (Selection(outcomes=frozenset({Outcome.FAILED})), 1),
        (Selection(instances=("ledger-*",)), 2),
        (Selection(models=frozenset({"small"}), variants=frozenset({"debug2fix"})), 2),
        (Selection(models=frozenset({"none"})), 0),
    ],
)
def test_what_is_shown(run: Path, tmp_path: Path, selection: Selection, expected: int) -> None:
    assert report(run, selection, tmp_path / "report").rollouts == expected
    page = read(tmp_path / "report" / "index.html")
    assert sum("data-outcome" in found for _, found in page.tags) == expected
    assert f"{expected} of 3 rollouts are shown" in page.text
    assert broken_links(tmp_path / "report") == []


def test_an_earlier_report_makes_way_and_nothing_else_does(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "report"
    assert report(run, output=output).pages == 5
    assert report(run, Selection(limit=1), output).pages < 3
    assert len(pages_of(output)) < 5
    assert GONE not in (output / "index.html").read_text(encoding="utf-8")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "index.html").write_text("mine")
    with pytest.raises(ConfigError, match="is no report of StepInto's"):
        report(run, output=foreign)
    assert (foreign / "index.html").read_text() == "mine"


def test_ids_of_a_foreign_table_name_no_other_file(tmp_path: Path) -> None:
    rollout = make_rollout(rollout_id="x/../../../escaped", sub_calls=0)
    (main,) = make_conversations(rollout)
    store, run = RunStore.open(tmp_path / "run"), tmp_path / "run"
    store.rollouts.write("ab", store.rollouts.arrow([plain(rollout)]))
    store.conversations.write("ab", store.conversations.arrow([plain(main)]))
    store.close()
    with pytest.raises(ConfigError, match=r"part-ab\.parquet, row 1: 'x/\.\./.* 16 hex digits"):
        report(run)
    assert not list(tmp_path.rglob("escaped*"))


def test_a_run_without_rollouts_has_nothing_to_show(tmp_path: Path) -> None:
    assert sources_of(tmp_path) == {}


def test_numbers_of_every_table_are_on_the_right() -> None:
    one = "| Arm | Bugs |\n| --- | --- |\n| a | 12 |\n"
    for tables in (1, 2):
        assert html_of("\n".join([one] * tables)).count('class="number"') == 2 * tables
