"""The index of a report: what was run, one sentence of verdict, the headline table and charts of
each stage, and the rest folded."""

from __future__ import annotations

import os
import re
import shlex
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from collect.config import SAVED_NAME
from collect.console import visible
from collect.quantities import counted, first_of
from collect.questions.asking import VARIANT as QUESTIONS
from collect.store.plain_yaml import PlainYaml
from eval.figures import ARMS, FIGURES, MARKDOWN, about, draw, figures_of, results_of, table
from eval.metrics import Arm, Facts, Labels, decimal, dollars, ordered, span, tokens
from eval.paired import p_value
from eval.report.facts import Outcome, Totals

RULES = ("heading", "list", "table", "emphasis", "escape", "entity", "newline")
"""Only what the tables use: no links, images or HTML, whatever a model's name contains."""
NUMBER = re.compile(r"[-+$~≤<]?[\d.,]+(?:[%kMs]|ms)?(?: .*)?|-|undefined")
TITLES = {"collect": "Collected", "eval": "In place", "questions": "Subagents alone"}
HEADLINE_CHARTS = 2
View = dict[str, Any]
"""The fields of something that a template shows."""


def saved_config(run: Path) -> dict[str, Any]:
    """A run's config as it was saved; empty if there is none that can be read."""
    try:
        found = yaml.load((run / SAVED_NAME).read_bytes(), PlainYaml)
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError):
        return {}
    models = found.get("models") or {} if isinstance(found, dict) else None
    is_one = isinstance(models, dict) and all(isinstance(each, dict) for each in models.values())
    return found if is_one else {}


def card_view(run: Path, totals: Totals, output: Path) -> View:
    """The header card of a run: models, bugs, cost, date, code, config, and the command that does
    it again."""
    config, stages = saved_config(run), totals.bugs
    arms = ordered({arm for _, arm, _, _ in totals.outcomes})
    names = dict.fromkeys(name for arm in arms for name in (arm.main_model, arm.sub_model) if name)
    bugs = []
    for stage, found in stages.items():
        names_of = sorted({benchmark for benchmark, _, _ in found})
        repositories = sorted({repository for _, _, repository in found})
        told = f"{counted(len(found), 'bug')} of {', '.join(names_of)}, from "
        told += f"{len(repositories)} repositories: " if len(repositories) > 1 else "repository "
        told += first_of(repositories, 4)
        bugs.append(told if len(stages) == 1 else f"{TITLES[stage]}: {told}")
    dates = [f"{datetime.fromtimestamp(each, UTC):%Y-%m-%d}" for each in totals.times]
    cost = [dollars(totals.dollars), f"{tokens(totals.tokens)} tokens"]
    facts = {
        "Models": [_model(name, config) for name in names],
        "Bugs": bugs,
        "Cost": [", ".join([*cost, counted(totals.rollouts, "rollout")])],
        "Date": [" to ".join(dict.fromkeys(dates))],
        "Code": [f"StepInto {version}" for version in sorted(totals.versions)],
    }
    return {
        "name": run.resolve().name,
        "facts": facts,
        "config": quote(os.path.relpath(run / SAVED_NAME, output)) if config else None,
        "command": _command(run, config, stages) if config else None,
    }


def _model(name: str, config: Mapping[str, Any]) -> str:
    told = (config.get("models") or {}).get(name) or {}
    if told.get("backend") == "oracle":
        answer = told.get("answer", "full")
        return f"{name}: scripted" + (f", answers “{answer}”" if answer != "full" else "")
    what = " ".join(str(told[key]) for key in ("backend", "model") if told.get(key))
    return f"{name}: {what}" if what else name


def _command(run: Path, config: Mapping[str, Any], stages: Collection[str]) -> str:
    """What does the run's stages again, in a new folder."""
    again = [f"run={run.resolve().name}-again"]
    if "collect" not in stages:
        stage = "eval"
    elif len(stages) == 1:
        stage = "collect"
    else:
        stage = "run"
        folder = f"{config.get('runs_folder')}/{config.get('run')}/"
        for name, model in (config.get("models") or {}).items():
            path = str(model.get("model") or "")
            if path.startswith(folder):
                # A model that the run trains: the new run trains its own.
                again.append(f"models.{name}.model={{run}}/{path.removeprefix(folder)}")
    return shlex.join(["stepinto", stage, str(run / SAVED_NAME), *again])


# What a stage found.

Column = Callable[[Facts], str]


def _sum(main: float | None, sub: float | None) -> float | None:
    return None if main is None else main + (sub or 0)


IN_PLACE: dict[str, Column] = {
    "Resolved": lambda m: f"{m['resolved']} of {m['rollouts']}",
    "Pass %": lambda m: decimal(m["pass_rate"]),
    "95 %": lambda m: span(m["pass_low"], m["pass_high"]),
    "Called %": lambda m: decimal(m["call_rate"]),
    "Steps": lambda m: decimal(_sum(m["main_steps"], m["sub_steps_all"])),
    "Tokens": lambda m: tokens(_sum(m["main_tokens"], m["sub_tokens_all"])),
    "$/rollout": lambda m: dollars(m["dollars_per_rollout"]),
    "Seconds": lambda m: decimal(m["debug_seconds"]),
}
ALONE: dict[str, Column] = {
    "Right": lambda m: f"{m['right']} of {m['questions']}",
    "Accuracy %": lambda m: decimal(m["accuracy"]),
    "95 %": lambda m: span(m["accuracy_low"], m["accuracy_high"]),
    "Grounded %": lambda m: decimal(m["grounded"]),
    "Steps": lambda m: decimal(m["steps"]),
    "Tokens": lambda m: tokens(m["tokens"]),
    "$/question": lambda m: dollars(m["dollars_per_question"]),
    "Seconds": lambda m: decimal(m["seconds"]),
}
"""The columns of the headline tables, from results.json."""


def part_view(stage: str, folder: Path, output: Path, labels: Labels) -> View:
    """What the index shows of a stage; links are relative, so the run can be moved."""
    results = results_of(folder)
    rows = results.get("arms") or results.get("models") or []
    columns = IN_PLACE if "arms" in results else ALONE
    names = arm_names(results, labels)
    places = {name: place for place, name in enumerate(names.values())}
    headline = [["Arm" if "arms" in results else "Model", *columns]]
    for name, row in zip(names.values(), rows, strict=True):
        headline.append([name, *(text(row) for text in columns.values())])
    charts = [
        {
            "figure": each,
            "note": about(each),
            "data": b64encode(draw(each, places).encode()).decode(),
        }
        for each in figures_of(results)
    ]
    files = [
        {"name": path.name, "href": quote(os.path.relpath(path, output))}
        for path in (*sorted(folder.iterdir()), *sorted((folder / FIGURES).glob("*.csv")))
        if path.suffix in (".csv", ".json", ".md")
    ]
    # The file's heading repeats the part's.
    text = (folder / MARKDOWN).read_text(encoding="utf-8").removeprefix("# Evaluation")
    first, *others = re.split(r"^## ", text, flags=re.MULTILINE)
    sections = [("The papers' table", first)] if first.strip() else []
    sections += [(title, body) for title, _, body in (each.partition("\n") for each in others)]
    return {
        "stage": stage,
        "title": TITLES[stage],
        "verdict": verdict(results, names),
        "warnings": [note for note in results.get("notes", ()) if note.startswith("Warning")],
        "headline": html_of(table(headline), places) if rows else None,
        "places": places,
        "charts": charts[:HEADLINE_CHARTS],
        "more_charts": charts[HEADLINE_CHARTS:],
        "sections": [(visible(title), html_of(body, places)) for title, body in sections],
        "files": files,
    }


def arm_names(results: Mapping[str, Any], labels: Labels) -> dict[Arm, str]:
    """The arms of a stage in the order of its tables, as its figures call them."""
    names = {}
    for row in results.get("arms", ()):
        arm = Arm(row["variant"], row["main_model"], row["sub_model"])
        names[arm] = labels.name(arm, row["scripted"])
    for row in () if names else results.get("models", ()):
        arm = Arm(QUESTIONS, "", row["model"])
        names[arm] = labels.name(arm, row["scripted"])
    return names


def verdict(results: Mapping[str, Any], names: Mapping[Arm, str]) -> View | None:
    """One sentence on the first primary comparison; None if nothing was compared.

    A difference is established if its interval leaves out 0 and its corrected p is small enough.
    """
    primary = [each for each in results.get("comparisons") or () if not each["exploratory"]]
    if not primary or primary[0]["difference"] is None:
        return None
    found = primary[0]
    first, second = (
        names[Arm(*(found[f"{side}_{key}"] for key in ("variant", "main_model", "sub_model")))]
        for side in ("first", "second")
    )
    statistics = ((results.get("config") or {}).get("eval") or {}).get("statistics") or {}
    established = bool(found["significant"]) and not found["low"] <= 0 <= found["high"]
    numbers = (
        f"{found['difference']:+.1f} points on {counted(found['instances'], 'bug')} "
        f"({found['first_rate']:.1f} % against {found['second_rate']:.1f} %; "
        f"{100 * statistics.get('confidence', 0.95):g} % interval "
        f"{found['low']:+.1f} to {found['high']:+.1f}; p = {p_value(found['p'])}"
    )
    if len(primary) > 1:
        numbers += (
            f", {p_value(found['p_corrected'])} after Holm's correction for {len(primary)} "
            "comparisons"
        )
    word = "better" if found["difference"] > 0 else "worse"
    told = f"Whether {first} and {second} differ is not established"
    if established:
        told = f"{first} does {word} than {second}"
    return {
        "established": established,
        "text": f"{told}: {numbers}).".replace("= <", "< "),
        "scripted": found["scripted"],
        "others": 0 if statistics.get("comparisons") else len(primary) - 1,
    }


def outcomes_table(totals: Totals, labels: Labels) -> list[list[str]]:
    seen = [each for each in Outcome if any(key[3] is each for key in totals.outcomes)]
    rows = [["Stage", "Arm", "Rollouts", *(each.value for each in seen)]]
    arms = {key[:3] for key in totals.outcomes}
    order = ordered({arm for _, arm, _ in arms})
    for stage, arm, scripted in sorted(arms, key=lambda key: (key[0], order.index(key[1]))):
        counts = [totals.outcomes[stage, arm, scripted, each] for each in seen]
        rows.append([stage, labels.name(arm, scripted), str(sum(counts)), *map(str, counts)])
    return rows


def html_of(markdown: str, places: Mapping[str, int] | None = None) -> Markup:
    """A Markdown page of tables as HTML: headings one level down, numeric columns right-aligned,
    arms marked with their colours, by their `places`, and tables in boxes that scroll if the window
    is too narrow."""
    parser = MarkdownIt("zero").enable(list(RULES))
    found = parser.parse(re.sub("^#", "##", visible(markdown), flags=re.MULTILINE))
    columns: dict[int, list[tuple[Token, str]]] = defaultdict(list)
    place = 0
    for token, after in zip(found, [*found[1:], Token("", "", 0)], strict=True):
        if token.type == "tr_open":
            place = 0
        elif token.type in ("th_open", "td_open"):
            columns[place].append((token, after.content))
            place += 1
        elif token.type == "table_close":
            for cells in columns.values():
                _align(cells)
            _mark_arms(columns, places or {})
            columns.clear()
    html = str(parser.renderer.render(found, parser.options, {}))
    box = '<div class="scroll plain" tabindex="0" role="region" aria-label="Table"><table>'
    return Markup(html.replace("<table>", box).replace("</table>", "</table></div>"))


def _align(cells: Sequence[tuple[Token, str]]) -> None:
    """Mark a column, header first, if at least half of its non-empty cells are numbers."""
    told = [text.strip("*") for _, text in cells[1:] if text]
    numbers = sum(NUMBER.fullmatch(text) is not None for text in told)
    if numbers and 2 * numbers >= len(told):
        for cell, _ in cells:
            cell.attrSet("class", "number")


def _mark_arms(
    columns: Mapping[int, Sequence[tuple[Token, str]]], places: Mapping[str, int]
) -> None:
    """Mark cells that name an arm, alone or with its models in the next column."""
    for number, cells in columns.items():
        following = columns.get(number + 1, [])
        for row, (cell, text) in enumerate(cells):
            models = following[row][1] if row < len(following) else ""
            name = next((each for each in (text, f"{text}, {models}") if each in places), None)
            if name is not None:
                cell.attrSet("class", arm_class(name, places))


def arm_class(name: str, places: Mapping[str, int]) -> str:
    """The CSS classes of an arm's mark; empty if it has no place."""
    pale = " scripted" if "(scripted)" in name else ""
    return f"arm arm-{places[name] % len(ARMS)}{pale}" if name in places else ""
