"""The page of all settings: made of the classes, kept beside the other pages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from configs.settings_page import SettingsPage

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


@cache
def page() -> str:
    return SettingsPage().text()


def section(title: str) -> list[str]:
    return page().split(f"## {title}\n")[1].split("\n## ")[0].splitlines()


def test_the_page_is_of_these_classes() -> None:
    again = "make it again: python -m configs.settings_page > docs/settings.md"
    assert PAGE.read_text(encoding="utf-8") == page(), again


def test_what_a_row_says() -> None:
    assert (
        "| `concurrency` | integer, at least 1, at most 10000 | `2` "
        "| Rollouts at once, of all nodes together. |" in section("`runner`")
    )
    (weights,) = (line for line in section("`format.mixture`") if "weights" in line)
    assert weights.startswith("| `weights` | {NAME: {NAME: number")
    (first_day,) = (line for line in section("`self_repair`") if "from_date" in line)
    assert first_day.startswith("| `from_date` | date or null | `null` | Only")
    (quantize,) = (line for line in section("`train.lora`") if "quantize" in line)
    assert quantize.startswith("| `quantize` | `4bit` or `8bit` or null | `null` | Hold")


def test_what_extends_another_class_has_its_settings_too() -> None:
    served = section("`models.NAME`, backend vllm")
    assert any(line.startswith("| `timeout` |") for line in served), "of any endpoint"
    assert any(line.startswith("| `server` |") for line in served)


def test_a_class_at_several_places_is_shown_once() -> None:
    assert page().count("## `collect.benchmark`") == 1
    assert "Also used by: `eval.benchmark`, `eval.questions.benchmark`" in page()
    assert "## `eval.benchmark`" not in page()


def test_every_link_leads_to_a_section() -> None:
    headings = re.findall(r"^## (.*)$", page(), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}
    assert set(re.findall(r"\(#([^)]*)\)", page())) <= anchors


def test_every_setting_has_a_meaning() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    silent = [row for row in rows if row.endswith("|  |")]
    left = [row for row in silent if "[settings]" not in row and "`backend`" not in row]
    assert len(rows) > 300
    assert left == []
