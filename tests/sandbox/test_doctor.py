"""What the doctor finds, and that it never shows a key."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from rich.console import Console

from sandbox.doctor import Check, check_machine, render

ROOT = Path(__file__).parents[2]


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_finds_what_is_here_and_says_how_to_get_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-s3cret")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    checks = by_name(check_machine())
    assert checks["bubblewrap"].found, checks["bubblewrap"].detail
    assert "a sandbox runs" in checks["bubblewrap"].detail
    assert checks["git"].detail.startswith("git version")
    if checks["JDK"].found:
        assert checks["JDK"].detail.endswith("seen from the sandbox")
    if checks["Gradle"].found:
        assert checks["Gradle"].detail.startswith("Gradle ")
    assert checks["OPENAI_API_KEY"] == Check(
        "OPENAI_API_KEY", True, "set", "models of an OpenAI-compatible endpoint"
    )
    assert not checks["HF_TOKEN"].found
    console = Console(width=200)
    with console.capture() as captured:
        console.print(render(list(checks.values())))
    assert "s3cret" not in captured.get()
    assert all(name in captured.get() for name in checks)


def test_nothing_installed_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    checks = by_name(check_machine())
    assert not checks["bubblewrap"].found
    assert "apt-get install bubblewrap" in checks["bubblewrap"].detail
    assert "unsafe: true" in checks["bubblewrap"].detail
    assert not checks["Docker engine"].found
    assert "DOCKER_HOST" in checks["Docker engine"].detail


def test_a_program_that_fails_counts_as_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("bin")
    (folder / "mvn").write_text("#!/bin/sh\necho no JAVA_HOME\nexit 1\n")
    (folder / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    assert "no JAVA_HOME" in by_name(check_machine())["Maven"].detail


def test_importing_sandbox_pulls_in_nothing_heavy() -> None:
    heavy = "{'docker', 'torch', 'transformers', 'ray', 'requests'}"
    script = (
        f"import sys, sandbox, sandbox.local, sandbox.container; print({heavy} & {{*sys.modules}})"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert answer.stdout == b"set()\n"


VLLM_LOOK = "import sandbox.doctor as d; print([c for c in d.check_machine() if c.name == 'vllm'])"


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("vllm/__init__.py", "found=True, detail='without metadata, in this environment'"),
        ("bin/vllm", "bin/vllm, of another environment"),
        pytest.param(
            *("nothing", "name another environment's in a model's server.command"),
            marks=pytest.mark.slow,
        ),
    ],
)
@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is in the tests' environment")
def test_vllm_is_found_wherever_it_is(tmp_path: Path, made: str, told: str) -> None:
    path = tmp_path / made
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    path.chmod(0o755)
    environment = {"PATH": str(tmp_path / "bin"), "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    found = subprocess.run(
        [sys.executable, "-c", VLLM_LOOK],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert told in found.stdout
