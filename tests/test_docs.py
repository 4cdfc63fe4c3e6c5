"""The pages hold what they say: links lead somewhere, settings exist."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

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


class Html(HTMLParser):
    """A page's links, and what links to it may have after their #."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.append(value)
            elif value and name in ("id", "name"):
                self.ids.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built in a copy of the checkout."""
    if find_spec("zensical") is None or find_spec("mkdocstrings") is None:
        pytest.skip("the site needs the extra docs: pip install -e '.[docs]'")
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    copy = tmp_path_factory.mktemp("site") / "checkout"
    unneeded = shutil.ignore_patterns(".*", "runs", "site", "build", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=unneeded)
    command = ["make", "--assume-old=setup", "site", f"BIN={Path(sys.executable).parent}"]
    offline = {**os.environ, "PIP_NO_INDEX": "1", "HF_HUB_OFFLINE": "1"}
    subprocess.run(command, check=True, cwd=copy, env=offline)
    return copy / "site"


@pytest.mark.slow
def test_the_links_of_the_built_site_lead_somewhere(site: Path) -> None:
    pages = {page: Html(page) for page in site.rglob("*.html")}
    broken = []
    for page, html in pages.items():
        for link in html.links:
            name, _, anchor = unquote(link).partition("#")
            target = (page.parent / name).resolve() if name else page
            if "://" in name or name.startswith(("data:", "mailto:", "/")):
                continue
            # The report's #text=... is a search.
            known = (
                target not in pages or not anchor or "=" in anchor or anchor in pages[target].ids
            )
            if not target.exists() or not known:
                broken.append(f"{page.relative_to(site)}: {link}")
    assert not broken
    assert len(pages) > 40


@pytest.mark.slow
def test_the_built_site_has_gallery_reference_and_search(site: Path) -> None:
    gallery = Html(site / "docs" / "gallery.html").links
    assert {"gallery/session/index.html", "gallery/pairs/eval/report/index.html"} <= set(gallery)
    reference = (site / "docs" / "api.html").read_text(encoding="utf-8")
    assert "in a sandbox of its own" in reference
    assert "From Python" in (site / "search.json").read_text(encoding="utf-8")
