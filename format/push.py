"""The upload of a dataset's folder to the hub."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from collect.errors import ConfigError
from format.config import PushConfig
from format.report import RECORDS, TABLES

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
