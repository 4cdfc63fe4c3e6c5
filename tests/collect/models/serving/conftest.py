"""Servers that a script stands in for, and models of them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from collect.models.base import Completion, Sampling
from collect.models.budget import Budget
from collect.models.config import ModelConfig, VllmConfig
from collect.models.serving import server as serving
from collect.models.serving.server import VllmBackend
from collect.rollouts.executor import open_model
from collect.store.messages import Message
from tests.collect.models.contexts import context

SCRIPT = Path(__file__).with_name("scripted.py")


class Scripted:
    """Opens vllm models whose server is the script, with its log and its starts in one folder."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self.folder, self._opened = folder, opened
        self.stop = threading.Event()
        self.log = folder / "servers" / "sub.log"

    def config(self, model: str | None = None, **settings: Any) -> VllmConfig:
        """`SCRIPT_*` settings go to the script, the others to the server's section."""
        script = {name: str(value) for name, value in settings.items() if name.isupper()}
        server = {name: value for name, value in settings.items() if not name.isupper()}
        server = {"model": "org/model", "command": [sys.executable, str(SCRIPT)]} | server
        server["environment"] = {"SCRIPT_STARTS": str(self.folder / "starts.jsonl"), **script}
        return VllmConfig.model_validate({"backend": "vllm", "model": model, "server": server})

    def open(self, config: ModelConfig, name: str = "sub") -> VllmBackend:
        backend = open_model(name, config, Budget(None), self.stop, self.folder)
        assert isinstance(backend, VllmBackend)
        self._opened.callback(backend.close)
        return backend

    @property
    def starts(self) -> list[dict[str, Any]]:
        """The arguments and process ids of each start so far."""
        path = self.folder / "starts.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    @property
    def alive(self) -> list[int]:
        """Processes of any start that still run."""
        return [pid for start in self.starts for pid in start["pids"] if runs(pid)]


def runs(pid: int) -> bool:
    """Whether there is such a process, zombies aside."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def ask(backend: VllmBackend) -> Completion:
    model = backend.open(context())
    return model.complete([Message("user", "Hello?")], [], Sampling())


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setattr(serving, "BACKOFF_SECONDS", 0.01)
    with ExitStack() as opened:
        yield Scripted(tmp_path, opened)


@pytest.fixture
def lora(tmp_path: Path) -> Path:
    """A folder with what peft writes about an adapter, without weights."""
    return write_adapter(tmp_path / "lora")


def write_adapter(folder: Path, **facts: Any) -> Path:
    folder.mkdir(exist_ok=True)
    known = {"peft_type": "LORA", "r": 12, "base_model_name_or_path": "org/model"}
    (folder / "adapter_config.json").write_text(json.dumps(known | facts))
    return folder
