"""The pages hold what they say: links lead somewhere, settings exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
import yaml
from nbclient import NotebookClient

from configs.loading import RunConfig, load_config
from format.candidates import FILTERS
from format.duplicates import NOT_NEAR_DUPLICATE, UNIQUE
from train.trainer import check_trainer_arguments

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What links to a page may have after their #, by GitHub's rules."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def notebook(page: Path) -> tuple[nbformat.NotebookNode, list[str]]:
    """A notebook of the page's shell and Python blocks, and the outputs that the page shows."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(sh|python|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    prefix = {"sh": "%%bash\n", "python": ""}
    cells = [
        nbformat.v4.new_code_cell(prefix[language] + code)
        for language, code in blocks
        if language in prefix
    ]
    return nbformat.v4.new_notebook(cells=cells), [c for kind, c in blocks if kind == "text"]


def settings_of(page: Path) -> list[str]:
    """The YAML blocks that are of a run's config."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [block for block in blocks if set(yaml.safe_load(block)) <= set(RunConfig.model_fields)]


def shown_configs(page: Path) -> Iterator[tuple[Path, list[str]]]:
    """The shipped configs that a page's commands name, each with its overrides; a run's folder
    stands for the config that an earlier command of the same block has made it with."""
    for block in FENCED.findall(page.read_text(encoding="utf-8")):
        made: dict[str, tuple[Path, list[str]]] = {}
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True) if line.startswith("stepinto ") else []
            overrides = [word for word in words if re.match(r"[\w.-]+=", word)]
            for word in words:
                if word.startswith("configs/"):
                    named = [each for each in overrides if each.startswith("run=")]
                    made |= {f"runs/{each[4:]}": (ROOT / word, overrides) for each in named}
                    yield ROOT / word, overrides
                elif word in made:
                    config, earlier = made[word]
                    yield config, [*earlier, *overrides]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_shown_have_valid_settings(page: Path) -> None:
    for config, overrides in shown_configs(page):
        load_config(config, overrides)


def test_the_pages_show_commands() -> None:
    shown = [each for page in PAGES for each in shown_configs(page)]
    assert len(shown) > 15
    assert any("eval.pairs" in override for _, overrides in shown for override in overrides)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        linked = page.parent / name if name else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_that_are_shown_exist(page: Path, tmp_path: Path) -> None:
    for block in settings_of(page):
        file = tmp_path / "config.yaml"
        file.write_text(block, encoding="utf-8")
        named = yaml.safe_load(block)
        config = load_config(file, [] if "run" in named else ["run=shown"])
        check_trainer_arguments(config.train)


def test_the_pages_show_settings() -> None:
    assert sum(len(settings_of(page)) for page in PAGES) > 8


def test_the_filters_are_listed_in_their_order() -> None:
    text = (ROOT / "docs" / "training-data.md").read_text(encoding="utf-8")
    section = text.split("## Filters\n")[1].split("\n## ")[0].split("\n### ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert listed == [*(each.__name__ for each in FILTERS), UNIQUE, NOT_NEAR_DUPLICATE]


@pytest.mark.slow
def test_the_code_for_python_gives_the_output_that_is_shown(tmp_path: Path) -> None:
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    code, shown = notebook(ROOT / "docs" / "python-api.md")
    NotebookClient(
        code, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    printed = [
        "".join(output.text for output in cell.outputs if output.get("name") == "stdout")
        for cell in code.cells
    ]
    assert [text for text in printed if text] == shown
    assert len(shown) == 4
