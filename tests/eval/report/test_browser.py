"""Reports in a real browser: nothing fails, nothing is fetched, nothing that was printed runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from eval.figures import ARMS
from tests.eval.report.reading import broken_links

SHOWN = "#table tbody tr:not([hidden])"


class Watched:
    """A page of the browser's, with all that goes wrong in it."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        self._context = browser.new_context(**options)
        self.page: Page = self._context.new_page()
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: self.troubles.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path) -> Page:
        self.page.goto(path.as_uri())
        return self.page

    def close(self) -> None:
        self._context.close()


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    page = Watched(browser)
    yield page
    page.close()


@pytest.mark.slow
def test_the_report_of_an_evaluation(watched: Watched, evaluated: Path) -> None:
    page = watched.open(evaluated / "index.html")
    assert page.locator("figure img").count() >= 3
    drawn = "all => all.every(each => each.complete && each.naturalWidth > 0)"
    assert page.locator("figure img").evaluate_all(drawn)
    assert "Pass & Call Rate" in (page.text_content("#part-1") or "")
    assert "Subagents alone" in page.inner_text("#part-2")
    assert "not established" in page.inner_text("#part-1 .verdict")
    assert "ledgerbook" in page.inner_text(".card")
    assert page.locator(SHOWN).count() == 4
    for link in page.locator("#table tbody a").evaluate_all("all => all.map(each => each.href)"):
        page.goto(link)
        assert page.locator(".turn.assistant").count() > 0
    assert page.locator("#question").count() == 1
    assert page.locator("#question .badge.right").count() > 0
    assert page.locator("mark.observed").count() > 0
    assert page.locator(".source .current").count() > 0
    assert watched.troubles == []
    assert all(url.startswith(evaluated.as_uri()) for url in watched.requests)
    assert broken_links(evaluated) == []


@pytest.mark.slow
def test_calls_lead_to_the_conversations_they_began(watched: Watched, evaluated: Path) -> None:
    page = watched.open(evaluated / "index.html")
    page.locator("#table tr", has_text="Debug2Fix").get_by_role("link", name="main").first.click()
    page.locator(".call .head a").first.click()
    assert "Asked by main" in page.inner_text("#content")
    page.get_by_text("Outcome and patch of the whole rollout").click()
    assert page.locator("#outcome .patch .added").count() > 0


@pytest.mark.slow
def test_filters_and_sorting(watched: Watched, evaluated: Path) -> None:
    page = watched.open(evaluated / "index.html")
    page.select_option("[name=outcome]", "right")
    expect(page.locator(SHOWN)).to_have_count(2)
    expect(page.locator("#filters output")).to_have_text("2 of 4")
    page.locator(f"{SHOWN} th a").first.click()
    page.go_back()
    expect(page.locator(SHOWN)).to_have_count(2)
    page.click("[type=reset]")
    expect(page.locator(SHOWN)).to_have_count(4)
    page.fill("[name=text]", "LEDGER")
    expect(page.locator(SHOWN)).to_have_count(2)
    page.fill("[name=text]", "")
    steps = page.get_by_role("button", name="Steps")
    for direction in ("ascending", "descending"):
        steps.click()
        values = [
            int(text) for text in page.locator(f"{SHOWN} td:nth-last-child(5)").all_inner_texts()
        ]
        assert values == sorted(values, reverse=direction == "descending")
        assert page.locator(f"th[aria-sort={direction}]").inner_text().startswith("Steps")
    assert watched.troubles == []


@pytest.mark.slow
def test_without_a_script_everything_is_there(browser: Browser, evaluated: Path) -> None:
    watched = Watched(browser, java_script_enabled=False)
    page = watched.open(evaluated / "index.html")
    assert page.locator(SHOWN).count() == 4
    assert not page.locator("#filters").is_visible()
    watched.close()


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1024), ("light", 1400)])
def test_it_fits_and_can_be_read(
    browser: Browser, evaluated: Path, scheme: Any, width: int
) -> None:
    watched = Watched(browser, color_scheme=scheme, viewport={"width": width, "height": 800})
    for path in (evaluated / "index.html", *sorted((evaluated / "conversations").iterdir())):
        page = watched.open(path)
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    back, front = page.evaluate(
        "(({backgroundColor, color}) => [backgroundColor, color])(getComputedStyle(document.body))"
    )
    light = sum(map(int, back[4:-1].split(","))) > sum(map(int, front[4:-1].split(",")))
    assert light == (scheme == "light")
    watched.close()


@pytest.mark.slow
def test_what_counts_is_seen_first(browser: Browser, evaluated: Path) -> None:
    watched = Watched(browser, viewport={"width": 1400, "height": 900})
    page = watched.open(evaluated / "index.html")
    box = page.locator("#part-1 table").first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 900
    colour = "each => getComputedStyle(each, '::before').borderTopColor"
    marks = page.locator("#part-1 table").first.locator("tbody .arm").all()
    for mark, expected in zip(marks, ARMS[:2], strict=True):
        red, green, blue = re.findall(r"\d+", mark.evaluate(colour))
        assert f"#{int(red):02x}{int(green):02x}{int(blue):02x}" == expected
    watched.close()


def test_nothing_that_was_printed_runs(watched: Watched, hostile: Path) -> None:
    for path in sorted(hostile.rglob("*.html")):
        page = watched.open(path)
        assert page.evaluate("typeof window.hacked") == "undefined"
        assert page.locator("img").count() == 0
    assert watched.troubles == []
    assert all(url.startswith(hostile.as_uri()) for url in watched.requests)


def test_the_policy_holds_where_escaping_would_not(watched: Watched, hostile: Path) -> None:
    page = watched.open(hostile / "index.html")
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"hacked=1\">');"
        "document.body.append(Object.assign(document.createElement('script'),"
        " {textContent: 'window.hacked = 1'}))"
    )
    page.wait_for_timeout(100)
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert watched.troubles
    assert all("Content Security Policy" in trouble for trouble in watched.troubles)
