"""The collect stage: from a benchmark to the run's rollouts; eval shares `do_rollouts`. A second
start does only what is missing, or failed because of the infrastructure or the budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from collect.agents.systems import SYSTEMS
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.held_out import HeldOutConfig, refuse_held_out
from collect.benchmarks.opening import open_chosen
from collect.config import CollectConfig, RuntimeConfig
from collect.errors import ConfigError, FailureKind
from collect.models.config import OracleConfig, RelayConfig
from collect.preflight import Finding
from collect.rollouts.batch import Batch, settings_facts
from collect.rollouts.executor import RolloutWork, models_of, with_players
from collect.rollouts.journal import Journal, fork, journal_header, journal_name
from collect.rollouts.rollout import RolloutSpec
from collect.rollouts.rows import RunIdentity
from collect.store.files import TextFile
from collect.store.records import Role, digest
from collect.store.run_store import RunStore


@dataclass(frozen=True)
class RolloutsSummary:
    """The result of a start."""

    folder: Path
    total: int
    """Rollouts that the config asks for."""
    done: int
    """Stored rows."""
    resolved: int
    failed: int
    """Rows with a failure of any kind."""
    infrastructure_failures: int
    """Rows that the next start does again."""
    stopped: bool
    """Whether the user, the budget or `gave_up` ended the start early."""
    gave_up: str | None
    """What kept failing, if too many rollouts in a row failed because of the infrastructure."""
    dollars: float
    reasons: tuple[str, ...]
    """Distinct infrastructure failures, and the spent budget if it was one, as `type: message`."""

    @property
    def nothing_worked(self) -> str | None:
        """Why no row has a verdict on a model, or why the start gave up; else None."""
        if self.gave_up is None and 0 < self.done == self.infrastructure_failures:
            every = "the only rollout" if self.done == 1 else f"all {self.done} rollouts"
            return f"{every} failed because of the infrastructure"
        return self.gave_up


def do_rollouts(
    runtime: RuntimeConfig,
    benchmark: Benchmark,
    specs: Sequence[RolloutSpec],
    identity: RunIdentity,
    folder: Path,
) -> RolloutsSummary:
    """Do the rollouts that `folder` does not have yet. Raises ConfigError if it holds rollouts made
    with other settings, SandboxError if the sandbox does not work."""
    with rollouts_batch(runtime, benchmark, specs, identity, folder) as batch:
        batch.run()
        resolved, dollars = 0, 0.0
        kinds: Counter[FailureKind | None] = Counter()
        reasons: dict[str, None] = {}
        for row in batch.rows():
            resolved, dollars = resolved + row.resolved, dollars + row.dollars
            kinds[row.failure_kind] += 1
            if row.failure_kind is FailureKind.INFRASTRUCTURE:
                reasons[row.failure] = None
    return RolloutsSummary(
        folder=folder,
        total=len(specs),
        done=kinds.total(),
        resolved=resolved,
        failed=kinds.total() - kinds[None],
        infrastructure_failures=kinds[FailureKind.INFRASTRUCTURE],
        stopped=batch.stop.is_set(),
        gave_up=batch.failures.gave_up,
        dollars=dollars,
        reasons=(*reasons, *batch.over_budget),
    )


def fork_rollouts(
    runtime: RuntimeConfig, others: Mapping[str, Sequence[RolloutSpec]], folder: Path
) -> None:
    """Let rollouts that are not begun yet share the main agent's replies of others that are done,
    by those ids. They use the replies as long as their main agents see the same, and pay for none
    of them."""
    store = RunStore(folder)
    held = set(store.rollouts.ids())
    for main in store.read_conversations(only=set(others)):
        for spec in others[main.rollout_id] if main.role is Role.MAIN else ():
            text = TextFile(folder / journal_name(spec.id))
            if spec.id not in held and text.read() is None:
                header = journal_header(digest(settings_facts(runtime, spec)), spec)
                fork(Journal(text, header), main)


@contextmanager
def rollouts_batch(
    runtime: RuntimeConfig,
    benchmark: Benchmark,
    specs: Sequence[RolloutSpec],
    identity: RunIdentity,
    folder: Path,
) -> Iterator[Batch]:
    """The rollouts as a batch. Raises ConfigError for bugs that a system can't work on."""
    models = models_of(runtime, specs)
    for spec in specs:
        instance, system = spec.instance, spec.system
        if system.one_file and not instance.solution:
            raise ConfigError(
                f"{spec.variant} repairs Python programs of one file, and {instance.benchmark} "
                f"{instance.id} is not one; take the benchmark self_repair or humanevalfix "
                "(Python), name the one file in `solution` of a bugs.jsonl's record, or take one "
                "of Debug2Fix's variants"
            )
        if system.needs_public_tests and not instance.public_tests:
            raise ConfigError(
                f"{spec.variant} runs tests that agents may see, and {instance.benchmark} "
                f"{instance.id} has none; take another variant, or leave the bug out"
            )
        named = [name for name in (spec.main, spec.sub) if name is not None]
        relays = [name for name in named if isinstance(models[name], RelayConfig)]
        if relays and (spec.main in relays or system.subagent is not Role.DEBUG_SUBAGENT):
            raise ConfigError(
                f"models.{relays[0]}: a relay can play the Debug Subagent alone; take another "
                f"model in {spec.variant}, or name it as `sub` of a variant of Debug2Fix's"
            )
        played = with_players(runtime, named)
        oracles = [name for name in played if isinstance(models[name], OracleConfig)]
        # Some programs of one file have a correct version, the others fail one by one.
        if oracles and not instance.gold_patch and not system.one_file:
            raise ConfigError(
                f"{instance.benchmark} {instance.id} has no gold patch, which is all that the "
                f"oracle knows (the model {oracles[0]!r}): set main and sub to models of another "
                "backend, or leave the bug out"
            )
    works = [RolloutWork(spec, identity, digest(settings_facts(runtime, spec))) for spec in specs]
    with closing(RunStore.open(folder)) as store:
        yield Batch(runtime, benchmark, works, store)


def run_collect(
    runtime: RuntimeConfig, config: CollectConfig, run: Path, held_out: HeldOutConfig | None = None
) -> RolloutsSummary:
    """Do the rollouts that the run folder does not have yet. Raises ConfigError, also if a bug is
    in `held_out`."""
    benchmark, specs = _asked_for(runtime, config, held_out)
    return do_rollouts(runtime, benchmark, specs, RunIdentity(run.name, runtime.seed), run)


def look_before_collect(
    runtime: RuntimeConfig, config: CollectConfig, run: Path, held_out: HeldOutConfig | None = None
) -> list[Finding]:
    """The checks of a start of collect; no rollout is done. Raises ConfigError."""
    benchmark, specs = _asked_for(runtime, config, held_out)
    identity = RunIdentity(run.name, runtime.seed)
    with rollouts_batch(runtime, benchmark, specs, identity, run) as batch:
        return batch.preflight()


def _asked_for(
    runtime: RuntimeConfig, config: CollectConfig, held_out: HeldOutConfig | None
) -> tuple[Benchmark, list[RolloutSpec]]:
    benchmark, choice = open_chosen(config.benchmark, runtime.sandbox)
    refuse_held_out(choice.instances, held_out or HeldOutConfig())
    specs = collect_specs(config, choice.instances)
    for name in {config.main, config.sub}:
        runtime.model_config_of(name)
    return benchmark, specs


def collect_specs(config: CollectConfig, instances: Sequence[Instance]) -> list[RolloutSpec]:
    """Every attempt, instance and variant; all first attempts come first."""
    main, sub = config.main, config.sub
    return [
        RolloutSpec(bug, variant, main, sub if SYSTEMS[variant].subagent else None, attempt)
        for attempt in range(config.attempts)
        for bug in instances
        for variant in config.variants
    ]
