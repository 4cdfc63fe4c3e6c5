"""What a sandbox is called in records."""

from __future__ import annotations

import pytest

from sandbox import SandboxConfig
from sandbox.base import backend_name


def test_an_unsandboxed_run_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert backend_name(SandboxConfig()) == "local"
    monkeypatch.setenv("PATH", "/nowhere")
    assert backend_name(SandboxConfig(unsafe=True)) == "local-unsafe"
    assert backend_name(SandboxConfig()) == "local"
    assert backend_name(SandboxConfig(backend="docker", unsafe=True)) == "docker"


def test_unsafe_changes_nothing_where_there_is_a_sandbox() -> None:
    assert backend_name(SandboxConfig(unsafe=True)) == "local"
