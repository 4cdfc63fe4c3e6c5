"""A bug's workspace as it is when a question is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from collect.agents.java_workspace import prepare_java_workspace
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.workspace import patch_workspace
from collect.config import Machinery
from collect.patches import apply_patch
from sandbox import Sandbox


def reproducible(machinery: Machinery) -> Machinery:
    """With a hash seed, where the sandbox has none: sets then have one order on all runs."""
    sandbox = machinery.sandbox
    environment = {"PYTHONHASHSEED": "0", **sandbox.environment}
    return machinery.model_copy(
        update={"sandbox": sandbox.model_copy(update={"environment": environment})}
    )


def lay_out(benchmark: Benchmark, instance: Instance, sandbox: Sandbox, patch: str) -> None:
    """Prepare the buggy tree, and make the question's change in it.

    Raises PatchError, SandboxError.
    """
    benchmark.prepare(instance, sandbox)
    if patch:
        patch_workspace(sandbox, patch)
    if instance.language == "java":
        prepare_java_workspace(sandbox)


def with_files(instance: Instance, files: Mapping[str, bytes], patch: str) -> Instance:
    """The bug with its files at hand, also those of an image, and the question's change in them.

    Raises PatchError.
    """
    return replace(instance, files=apply_patch(files, patch) if patch else files)
