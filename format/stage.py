"""The format stage: turns a run's trajectories into training data in `RUN/sft/`.

One pass over the conversations writes the rows to keep to a file. The mixture and the splits are
then computed from small facts about all rows, and the rows are written from the file. They are
never all in memory.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from collect.benchmarks.held_out import HeldOut, HeldOutConfig
from collect.errors import ConfigError
from collect.store.files import replacing_folder
from collect.store.run_store import RunStore
from format.candidates import (
    FILTERS,
    Candidate,
    Candidates,
    characters,
    read_outcomes,
    rule_of,
)
from format.config import FormatConfig, PushConfig
from format.dataset import COLUMNS, Splits, tool_texts
from format.duplicates import RULES, Duplicates
from format.mixture import RULE as MIXED
from format.mixture import mixed
from format.preferences import PREFERENCES, Attempts, attempt_of, write_preferences
from format.report import RECORDS, TABLES, FormatReport, Funnel, write_card
from format.turn_quality import takeover, trained_turns
from format.writing import StagedRows, write_rows, write_trajectories

logger = logging.getLogger(__name__)


def row_columns(candidate: Candidate) -> dict[str, Any]:
    outcome, said, grounding = candidate.outcome, candidate.said, candidate.grounding
    rows, quality = candidate.conversation.messages, candidate.turn_quality
    # Of a relay's two models the one that the row trains.
    served = (row.served_model for row in rows[takeover(candidate.conversation) :])
    facts = {name: getattr(said, name) for name in COLUMNS if hasattr(said, name)}
    facts |= {name: getattr(outcome, name) for name in COLUMNS if hasattr(outcome, name)}
    return facts | {
        "messages": candidate.texts,
        "tools": tool_texts(said.tools),
        "role": str(said.role),
        "served_model": next(filter(None, served), None),
        "prompt_tokens": sum(row.prompt_tokens for row in rows),
        "completion_tokens": sum(row.completion_tokens for row in rows),
        "grounding": grounding.score,
        "claims": grounding.counts,
        "turn_quality": [label.value for label in quality],
        "trained_turns": list(trained_turns(quality, candidate.config.masked_turns)),
        "leaks": [leak.value for leak in candidate.leaks],
        "fix_touched_location": candidate.fix_touched_location,
        "replay_verified": candidate.replay_verified,
    }


def check_runs(config: FormatConfig, run: Path) -> None:
    """Raise ConfigError if a folder of `format.runs` can't be added to the run."""
    names = {run.resolve().name: run}
    for each in config.runs:
        name = each.resolve().name
        if not (each / "rollouts").is_dir():
            raise ConfigError(f"format.runs: {each} is no folder of a run with rollouts")
        if name in names:
            why = "ids of conversations begin with it, so rename one of the folders"
            raise ConfigError(f"format.runs: {each} has the same name as {names[name]}; {why}")
        names[name] = each


def run_format(
    config: FormatConfig, run: Path, held_out: HeldOutConfig | None = None
) -> FormatReport:
    """Write `RUN/sft/` from the conversations of the run and of `format.runs`, replacing an earlier
    one.

    Conversations on bugs in `held_out` are dropped. Raises ConfigError, without writing anything,
    if no conversation is left to train on, or if the config requests pairs and there are none.
    """
    held_out = held_out or HeldOutConfig()
    bugs = HeldOut.of(held_out)
    check_runs(config, run)
    stores = [RunStore(each) for each in (run, *config.runs)]
    runs = [(store, read_outcomes(config, store, bugs)) for store in stores]
    # A run of other runs' conversations alone need not have collected any itself.
    empty = [store.folder for store, outcomes in runs[bool(config.runs) :] if not outcomes]
    if empty:
        first = empty[0]
        raise ConfigError(
            f"{first} has no rollouts; run `stepinto collect` on this run folder first"
        )
    held = any(outcome.held_out for _, outcomes in runs for outcome in outcomes.values())
    if held and config.push is not None and config.push.records:
        logger.warning("the runs' records are not pushed: they hold bugs of `held_out`")
        push_rows = config.push.model_copy(update={"records": False})
        config = config.model_copy(update={"push": push_rows})
    source = Candidates(config, runs)
    attempts: Attempts = {}
    with replacing_folder(run / "sft") as folder:
        kept = StagedRows(folder, config.mixture.seed)
        funnel = _select(config, source, kept, attempts)
        if not kept.facets:
            # `role` counts only if it left nothing.
            steps = [step for step in funnel.steps if step.name != "role" or not step.remaining]
            worst = max(steps, key=lambda step: step.dropped)
            raise ConfigError(
                f"none of the {funnel.conversations} conversations in "
                f"{' and '.join(map(str, (run, *config.runs)))} is left to train on: "
                f"the filter {worst.name!r} dropped {worst.dropped}. It keeps where: {worst.rule} "
                "Collect more rollouts, or relax that filter in the config's `format` section"
            )
        chosen = mixed(config.mixture, kept.facets, kept.numbers, kept.efforts)
        funnel.add_step("mixture", MIXED, sum(chosen))
        # A right attempt that repeats an earlier one is no row, but may be a side of a pair.
        right = {each.repository for each in attempts.values() if each.right}
        splits = Splits(config, {facets.repository for facets in kept.facets} | right)
        written = write_rows(config, kept, chosen, splits, folder)
        kept.remove()
        if config.atif:
            write_trajectories(source, written, folder)
        if config.preferences is not None:
            pairs = write_preferences(config, attempts, source, splits, folder)
            written.outputs[PREFERENCES] = pairs
        report = FormatReport(
            funnel=funnel,
            splits=written.statistics,
            outputs=written.outputs,
            config=config.model_dump(mode="json"),
            held_out=held_out.model_dump(mode="json"),
        )
        (folder / "report.json").write_text(report.model_dump_json(indent=2) + "\n")
        write_card(folder, report)
    return report


def _select(
    config: FormatConfig, source: Candidates, kept: StagedRows, attempts: Attempts
) -> Funnel:
    """Run the funnel; adds the rows that pass to `kept`, and possible sides of pairs to
    `attempts`."""
    duplicates = Duplicates(config)
    dropped: Counter[str | None] = Counter()
    for candidate in chain.from_iterable(source.rollouts()):
        dropped_by = next((keep.__name__ for keep in FILTERS if not keep(candidate)), None)
        if config.preferences is not None:
            attempt = attempt_of(candidate, dropped_by)
            if attempt is not None:
                attempts.setdefault((attempt.question, attempt.said), attempt)
        dropped_by = dropped_by or duplicates.dropped_by(candidate.said)
        dropped[dropped_by] += 1
        if dropped_by is None:
            kept.add(row_columns(candidate), characters(candidate.said))
    return Funnel.of({keep.__name__: rule_of(keep) for keep in FILTERS} | RULES, dropped)


# Upload the dataset's folder to the hub.


ENDPOINT = "HF_ENDPOINT"
LOG_IN = "set HF_TOKEN to a token with write access, or run `hf auth login`"


def check_push(config: PushConfig | None) -> None:
    """Raise ConfigError if a requested upload can't succeed: a bad name, or no token."""
    from huggingface_hub import get_token

    if config is None:
        return
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", config.repository):
        raise ConfigError(f"{config.repository!r} must be OWNER/NAME to be pushed to")
    if get_token() is None:
        raise ConfigError(f"there is no token to push {config.repository} with; {LOG_IN}")


def push(folder: Path, config: PushConfig, runs: Iterable[Path] = ()) -> str:
    """Upload a folder as a dataset, and the records of these runs if the config says so; returns
    the dataset's address.

    Creates the repository if needed. Replaces existing files in folders; other top-level files
    remain. Raises ConfigError if the hub can't be reached, or refuses.
    """
    from httpx2 import TransportError
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    check_push(config)
    api, repository = HfApi(endpoint=os.environ.get(ENDPOINT)), config.repository
    try:
        made = api.create_repo(
            repository, repo_type="dataset", private=config.private or None, exist_ok=True
        )
        api.upload_folder(
            repo_id=made.repo_id,
            repo_type="dataset",
            folder_path=folder,
            commit_message="Write the dataset of a StepInto run",
            delete_patterns="*/*",
        )
        for run in runs if config.records else ():
            api.upload_folder(
                repo_id=made.repo_id,
                repo_type="dataset",
                folder_path=run,
                path_in_repo=f"{RECORDS}/{run.resolve().name}",
                allow_patterns=[f"{table}/[!.]*.parquet" for table in TABLES],
                commit_message=f"Add the records of the run {run.resolve().name}",
            )
    except HfHubHTTPError as error:
        status = error.response.status_code
        reason = (error.server_message or str(error)).rstrip(".")
        hint = f"; {LOG_IN}" if status in (401, 403) else ""
        raise ConfigError(
            f"{api.endpoint} refused to take {repository} ({status}): {reason}{hint}"
        ) from error
    except (TransportError, ConnectionError) as error:
        # Among them OfflineModeIsEnabled, which names HF_HUB_OFFLINE.
        raise ConfigError(
            f"{repository} can't be pushed: {api.endpoint} can't be reached: {error}; "
            "the dataset itself is done, and the same command pushes it"
        ) from error
    return str(made)
