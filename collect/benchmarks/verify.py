"""Check that bugs are what they claim: failing before the gold patch, passing after it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from collect.benchmarks.base import Benchmark, Instance, TestResults
from collect.benchmarks.judging import judged
from collect.benchmarks.marks import Finding, Mark, Verification
from collect.benchmarks.ran_in import RanIn
from collect.benchmarks.verifications import Verifications, with_verifications
from collect.benchmarks.workspace import open_instance_sandbox, patch_workspace
from collect.errors import InfrastructureFailure
from collect.patches import PatchError
from collect.runner import AsyncioRunner
from sandbox import SandboxConfig
from sandbox.errors import CommandRefused, SandboxError, SandboxFileError

DISK_IS_FULL = "No space left on device"


@dataclass(frozen=True)
class VerifySettings:
    """How bugs are verified, and which of them."""

    repeats: int = 1
    """Runs on each side of the gold patch; flaky tests show only in more than one."""
    slow_over: float | None = None
    """Seconds of one run over which a bug is marked slow."""
    workers: int = 2
    """Bugs at once."""
    again: bool = False
    """Also those that were verified before."""


def verify_instance(
    benchmark: Benchmark,
    instance: Instance,
    sandbox_config: SandboxConfig,
    repeats: int = 1,
    *,
    slow_over: float | None = None,
    ran_in: RanIn | None = None,
) -> Verification:
    """Run the tests before and after the gold patch, `repeats` times, each in a fresh sandbox.

    Where no gold patch is known, only before. Where the sandbox or the machine does not work, the
    verification says so, and nothing of the bug.
    """
    name = ""
    try:
        name = (ran_in or RanIn(sandbox_config)).name(instance)
        before = [_run(benchmark, instance, sandbox_config, "") for _ in range(repeats)]
        after = [
            _run(benchmark, instance, sandbox_config, instance.gold_patch)
            for _ in range(repeats if instance.gold_patch else 0)
        ]
    except (PatchError, SandboxFileError, CommandRefused) as error:
        text = f"{type(error).__name__}: {error}"
        finding = Finding(mark=Mark.BROKEN, text=text)
        return _unless_disk_is_full(Verification.of(instance, name, findings=(finding,)), text)
    except (SandboxError, InfrastructureFailure, OSError) as error:
        return Verification.of(instance, name, failure=f"{type(error).__name__}: {error}")
    verification = Verification.of(
        instance,
        name,
        findings=judged(instance, before, after),
        repeats=repeats,
        seconds_before=max(run.seconds for run in before),
        seconds_after=max((run.seconds for run in after), default=0.0),
        slow_over=slow_over,
    )
    return _unless_disk_is_full(verification, *(run.output for run in [*before, *after]))


def verify(
    benchmark: Benchmark,
    instances: Sequence[Instance],
    sandbox_config: SandboxConfig,
    settings: VerifySettings | None = None,
    *,
    verifications: Verifications | None = None,
    on_done: Callable[[Verification], None] = lambda _: None,
) -> list[Verification]:
    """Verify many at once, and keep what was found in `verifications`; in the order given.

    One that is kept there, with as many runs, is taken from there. `on_done` hears of each from the
    worker threads. Ctrl-C ends it early: those not verified yet are left out.
    """
    settings = settings or VerifySettings()
    ran_in = RanIn(sandbox_config)
    known = {} if settings.again else _known(instances, verifications, ran_in, settings)
    done: dict[str, Verification] = {}

    def one(instance: Instance) -> None:
        verification = known.get(instance.id) or verify_instance(
            benchmark,
            instance,
            sandbox_config,
            settings.repeats,
            slow_over=settings.slow_over,
            ran_in=ran_in,
        )
        verification = verification.model_copy(update={"slow_over": settings.slow_over})
        is_new = verification != known.get(instance.id)
        if verifications is not None and is_new and not verification.failure:
            verifications.add(verification)
        done[instance.id] = verification
        on_done(verification)

    AsyncioRunner(settings.workers, threading.Event()).run(instances, one)
    return [done[instance.id] for instance in instances if instance.id in done]


def _known(
    instances: Sequence[Instance],
    verifications: Verifications | None,
    ran_in: RanIn,
    settings: VerifySettings,
) -> dict[str, Verification]:
    """The kept verifications that are good enough, by instance."""
    if verifications is None:
        return {}
    found = with_verifications(instances, ran_in, verifications)
    return {
        instance.id: each
        for instance, each in found
        if each is not None and each.repeats >= settings.repeats
    }


def _run(
    benchmark: Benchmark, instance: Instance, sandbox_config: SandboxConfig, patch: str
) -> TestResults:
    everything = replace(instance, files={**instance.files, **instance.hidden_files})
    with open_instance_sandbox(sandbox_config, instance) as sandbox:
        benchmark.prepare(everything, sandbox)
        if patch:
            patch_workspace(sandbox, patch)
        tests = [*instance.fail_to_pass, *instance.pass_to_pass]
        return benchmark.run_tests(instance, sandbox, tests)


def _unless_disk_is_full(verification: Verification, *outputs: str) -> Verification:
    """What tests say on a full disk is not the bug's doing."""
    if not verification.problems or not any(DISK_IS_FULL in output for output in outputs):
        return verification
    failure = f"{DISK_IS_FULL}: make room on this machine, and verify again"
    return verification.model_copy(update={"findings": (), "failure": failure})
