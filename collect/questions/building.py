"""Builds a file of runtime questions and its card: investigates every bug, and chooses from all
candidates by rules, with a funnel.

Outcomes are appended to a work file as they come, so that a killed run can resume.
"""

from __future__ import annotations

import hashlib
import logging
import platform
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

import yaml
from rich.table import Table

from collect.benchmarks.base import Benchmark, Instance, TestStatus
from collect.benchmarks.opening import open_benchmark, select_instances
from collect.benchmarks.workspace import open_instance_sandbox
from collect.code.patches import (
    PatchError,
    apply_patch,
    changed_lines,
    changed_paths,
    diff_trees,
    reverse_patch,
)
from collect.code.source import changed_code, function_at, read_source
from collect.config import RuntimeConfig
from collect.errors import InfrastructureFailure, RolloutStopped
from collect.quantities import counted
from collect.question_records import (
    ANSWERING,
    Ask,
    AssertionAsk,
    AssertionTruth,
    Card,
    Category,
    CategoryCard,
    Difficulty,
    Drop,
    ExceptionAsk,
    ExceptionTruth,
    Hints,
    PostFixAsk,
    PostFixTruth,
    Question,
    QuestionsConfig,
    ReachAsk,
    ReachTruth,
    RootCauseAsk,
    Truth,
    ValueAsk,
    ValueTruth,
)
from collect.questions.asking import lay_out, reproducible
from collect.questions.claims import ordinal
from collect.questions.comparing import GUESSED, Name, parse_value, same
from collect.questions.program import Program
from collect.questions.tracing import (
    Finding,
    Runs,
    TracedAsk,
    candidates,
    find,
    root_cause,
    root_cause_finding,
    trace_test,
)
from collect.rollouts.progress import ProgressBar
from collect.store.files import StrictRecord, WorkFile, card_path, read_card, write_lines
from collect.store.records import code_version, digest
from collect.threads import raise_if_stopped, run_in_threads
from sandbox import SandboxConfig, clean_up
from sandbox.debugger import DebugLimits, open_debugger
from sandbox.errors import SandboxError, SandboxUnavailable

logger = logging.getLogger(__name__)

LIMITS = DebugLimits(value_chars=400, max_frames=60)
DEFAULT_NAME = "questions.jsonl"
ADVICE = "another questions or sandbox section; remove it, or choose another questions.output"
SHORT = {
    Drop.UNREADABLE: "not comparable",
    Drop.NONDETERMINISTIC: "nondeterministic",
    Drop.ON_SOURCE: "readable off the source",
    Drop.DUPLICATE: "duplicate",
    Drop.UNBALANCED: "unbalanced",
    Drop.LIMIT: "over limit",
}
CODE_TYPES = ("function", "method", "builtin_function_or_method", "type", "module", "ABCMeta")
FEW_STATEMENTS = 2
WORDINGS: Mapping[str, Sequence[str]] = yaml.safe_load(
    Path(__file__).with_name("wordings.yaml").read_text(encoding="utf-8")
)


class NoQuestions(Exception):
    """Why nothing can be asked about a bug."""


class Outcome(StrictRecord):
    """The result for one bug."""

    instance_id: str
    instance_hash: str
    questions: tuple[Question, ...] = ()
    asked: Mapping[Category, int] = {}
    dropped: Mapping[Category, Mapping[Drop, int]] = {}
    without: str | None = None
    """Why there are no questions."""


@dataclass(frozen=True)
class Investigator:
    """Investigates a bug of a benchmark; each test runs twice in fresh sandboxes."""

    benchmark: Benchmark
    sandbox: SandboxConfig
    config: QuestionsConfig
    instance: Instance
    stop: threading.Event

    def outcome(self) -> Outcome:
        """The bug's questions and funnel; a broken sandbox loses only this bug. Raises
        SandboxUnavailable, RolloutStopped."""
        about = Outcome(instance_id=self.instance.id, instance_hash=self.instance.hash)
        try:
            chooser = self.chooser()
        except SandboxUnavailable:
            raise
        except NoQuestions as reason:
            return about.model_copy(update={"without": str(reason)})
        except SandboxError as error:
            return about.model_copy(update={"without": f"{type(error).__name__}: {error}"})
        questions = tuple(chooser.questions())
        found = {"questions": questions, "asked": chooser.asked, "dropped": chooser.dropped}
        without = None if questions else "nothing that could be asked has passed the rules"
        return about.model_copy(update={**found, "without": without})

    def chooser(self) -> Chooser:
        """Everything worth asking about the bug. Raises NoQuestions, SandboxError."""
        bug, files = self.instance, self.instance.files
        if not files:
            with open_instance_sandbox(self.sandbox, bug) as sandbox:
                self.benchmark.prepare(bug, sandbox)
                files = sandbox.read_tree()
        program = Program(bug, files)
        if not program.modules:
            raise NoQuestions("no source file in a language that is traced")
        failing = [test for test in bug.fail_to_pass if test in bug.public_tests]
        tests = failing[: self.config.max_tests]
        traced = [runs for test in tests if (runs := self._runs(program, test))]
        if not traced:
            raise NoQuestions("no failing test comes to its end under the debugger")
        chooser = Chooser(bug, self.config)
        for runs in traced:
            chooser.add_runs(runs)
        if bug.gold_patch:
            wrong = list(wrong_patches(bug, files))
            random.Random(f"{self.config.seed}\0{bug.id}").shuffle(wrong)
            for patch in (bug.gold_patch, *wrong[: self.config.wrong_patches]):
                self._add_fix(chooser, files, traced[0].test, patch)
        return chooser

    def _runs(self, program: Program, test: str, patch: str = "") -> Runs | None:
        """Two traces, or None if one does not end."""
        files, timeout = changed_paths(patch) if patch else None, self.config.test_timeout
        traces = []
        try:
            for _ in range(2):
                raise_if_stopped(self.stop)
                with open_instance_sandbox(self.sandbox, self.instance) as sandbox:
                    lay_out(self.benchmark, self.instance, sandbox, patch)
                    opened = open_debugger(self.instance.language, sandbox, LIMITS)
                    with closing(opened) as debugger:
                        traces.append(trace_test(debugger, program, test, timeout, files))
        except InfrastructureFailure:
            return None
        first, second = traces
        return Runs(test, program, first, second, patch) if first.ended and second.ended else None

    def _add_fix(self, chooser: Chooser, files: Mapping[str, bytes], test: str, patch: str) -> None:
        """Ask about a changed program, if the change applies and the test then ends."""
        status = TestStatus.PASSED
        try:
            program = Program(self.instance, apply_patch(files, patch))
            if patch != self.instance.gold_patch:
                with open_instance_sandbox(self.sandbox, self.instance) as sandbox:
                    lay_out(self.benchmark, self.instance, sandbox, patch)
                    tested = self.benchmark.run_tests(self.instance, sandbox, [test])
                    status = tested.statuses[test]
        except PatchError:
            return
        if status in (TestStatus.PASSED, TestStatus.FAILED):
            runs = self._runs(program, test, patch)
            if runs is not None:
                chooser.add_fix(runs, status is TestStatus.PASSED)


def wrong_patches(instance: Instance, files: Mapping[str, bytes]) -> Iterator[str]:
    """Patches of the function that the gold patch changes, each with a different small edit."""
    try:
        fixed = apply_patch(files, instance.gold_patch)
    except PatchError:
        return
    seen: set[str] = set()
    for changed in changed_code(files, instance.gold_patch):
        source = read_source(changed.path, files[changed.path])
        function = function_at(source, changed.end)
        if function is None or function.name in seen:
            continue
        seen.add(function.name)
        for mutation in source.mutations(function):
            text = mutation.text.encode()
            if text != fixed.get(changed.path):
                yield diff_trees({changed.path: files[changed.path]}, {changed.path: text})


def questions_path(config: QuestionsConfig, run: Path) -> Path:
    """The path of a config's questions."""
    return Path(config.output) if config.output is not None else run / DEFAULT_NAME


def build(runtime: RuntimeConfig, config: QuestionsConfig, run: Path) -> Card | None:
    """Build the file, in the run's folder unless the config names another place. One that is
    finished for these bugs and settings stays as it is. None if the run was stopped before its end.
    Raises ConfigError, SandboxError."""
    runtime = reproducible(runtime)
    benchmark = open_benchmark(config.benchmark, runtime.sandbox)
    instances = select_instances(config.benchmark, benchmark)
    path = questions_path(config, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Everything that decides a bug's outcome. The set of bugs may change.
    settings = {
        "questions": config.model_dump(mode="json", exclude={*ANSWERING, "benchmark"}),
        "benchmark": config.benchmark.name,
        "test_timeout": config.benchmark.test_timeout,
        "sandbox": runtime.sandbox.model_dump(mode="json"),
    }
    fingerprint = digest([settings, [each.hash for each in instances]])
    earlier = read_card(path, card_path(path), Card)
    if earlier is not None and earlier.fingerprint == fingerprint:
        logger.info(f"{path} is finished; remove it to make the questions again")
        return earlier
    key = digest({**settings, "code": code_version()})
    work = WorkFile(path, key, Outcome, lambda each: each.instance_hash, ADVICE)
    missing = [instance for instance in instances if instance.hash not in work.outcomes]
    bar = ProgressBar("bugs", len(instances), len(instances) - len(missing))
    stop = threading.Event()

    def investigate(instance: Instance) -> None:
        with suppress(RolloutStopped):
            work.add(Investigator(benchmark, runtime.sandbox, config, instance, stop).outcome())
            bar.advance()

    if missing:
        clean_up(runtime.sandbox)
        with bar:
            run_in_threads(missing, investigate, runtime.runner.concurrency, stop)
    if stop.is_set():
        return None
    done = [work.outcomes[each.hash] for each in instances]
    card = _card(config, done).model_copy(update={"fingerprint": fingerprint})
    write_lines(path, (question for each in done for question in each.questions), card)
    work.remove()
    return card


def _card(config: QuestionsConfig, outcomes: Sequence[Outcome]) -> Card:
    questions = [question for outcome in outcomes for question in outcome.questions]
    kept = Counter(question.category for question in questions)
    categories = {}
    for category in Category:
        dropped = [outcome.dropped.get(category, {}) for outcome in outcomes]
        categories[category] = CategoryCard(
            asked=sum(outcome.asked.get(category, 0) for outcome in outcomes),
            dropped={why: sum(counts.get(why, 0) for counts in dropped) for why in Drop},
            questions=kept[category],
        )
    return Card(
        benchmark=config.benchmark.name,
        instances=len(outcomes),
        without=Counter(outcome.without for outcome in outcomes if outcome.without),
        questions=len(questions),
        categories=categories,
        seed=config.seed,
        per_category=config.per_category,
        versions={"stepinto": code_version(), "python": platform.python_version()},
    )


def funnel_table(card: Card) -> Table:
    """One line per category: possible questions, the drops by reason, and what is left."""
    bugs = counted(card.instances, "bug")
    table = Table(title=f"{counted(card.questions, 'question')} about {bugs}")
    table.add_column("category", no_wrap=True)
    table.add_column("asked", justify="right")
    table.add_column("dropped as")
    table.add_column("questions", justify="right")
    for category, counts in card.categories.items():
        dropped = [f"{SHORT[why]} {count}" for why, count in counts.dropped.items() if count]
        told = ", ".join(dropped) or "-"
        table.add_row(category, str(counts.asked), told, str(counts.questions))
    return table


def is_readable(ask: Ask, truth: Truth, runs: Runs) -> bool:
    """Whether the answer can be read off the source without running the program: of reachability if
    the line is reached and no branch decides that, and of a count if it is one; of a root cause if
    the whole run has at most two statements of the program to choose from; of an exception in a
    named function if that function holds one `raise`, and nothing else in it raised. Other
    exceptions and all assertions depend on the run: the source does not say which of them occurs,
    or what an assertion saw."""
    program = runs.program
    match ask, truth:
        case PostFixAsk(), PostFixTruth():
            return is_readable(ask.value, truth.value, runs)
        case ValueAsk(), ValueTruth():
            varies = (ask.place, ask.expression) in runs.first.varied
            return value_is_readable(ask, truth, varies, program, runs.test)
        case ReachAsk(), _:
            module = program.module(ask.place.file)
            statement = module.at(ask.place.line) if module is not None else None
            hits = runs.first.hits[ask.place.file, ask.place.line]
            guessed = ask.count and hits == 1
            return statement is None or guessed or (hits > 0 and not statement.conditional)
        case ExceptionAsk(), ExceptionTruth():
            module = program.module(truth.origin.file)
            own = module.raising_lines(ask.function) if module is not None and ask.function else []
            return own == [truth.origin.line]
        case RootCauseAsk(), _:
            return len({stop.statement.place for stop in runs.first.stops}) <= FEW_STATEMENTS
    return False


def value_is_readable(
    ask: ValueAsk, truth: ValueTruth, varies: bool, program: Program, test: str
) -> bool:
    """Whether a value needs no run. It is dropped if

    1. anybody would guess it: None, True, False, -1, 0, 1, 2, an empty text or container, unless
       the expression had other values at other stops of the same line (`varies`), so that the visit
       decides;
    2. it is a literal, in any notation, in the function in question, in one of its defaults, at
       module or class level, in the function of the test, or in the fixtures and constants next to
       it (an argument that the test passes on, the expected result of an assertion). None, True and
       False occur in most functions: at a later visit they are kept if they vary;
    3. it is a function, a class or a module, since its name gives it away.
    """
    value = parse_value(truth.text)
    if truth.type in CODE_TYPES or isinstance(value, Name):
        return True
    if not varies and any(same(value, parse_value(guess)) for guess in GUESSED):
        return True
    if varies and ask.hit > 1 and isinstance(value, bool | None):
        return False
    written = program.written_out(ask.place.file, ask.place.function, test)
    return any(same(value, literal) for literal in written)


class Chooser:
    """The questions of one bug, and what became of all candidates."""

    def __init__(self, instance: Instance, config: QuestionsConfig) -> None:
        self.asked: Counter[Category] = Counter()
        self.dropped: dict[Category, Counter[Drop]] = defaultdict(Counter)
        self._instance, self._config = instance, config
        self._rng = random.Random(f"{config.seed}\0{instance.benchmark}\0{instance.id}")
        self._kept: list[tuple[Question, object]] = []
        """Questions and their groups."""
        self._known: set[tuple[object, ...]] = set()

    def add_runs(self, runs: Runs) -> None:
        """Check every candidate about the buggy program against both runs."""
        asks = list(candidates(runs.first, runs.program))
        self._rng.shuffle(asks)
        for category, ask in asks:
            self._check(category, ask, runs)
        truth = root_cause(self._instance, runs.first, runs.program)
        finding = root_cause_finding(truth, runs.first, runs.second) if truth is not None else None
        if finding is not None and runs.first.failed and runs.second.failed:
            self.asked[Category.ROOT_CAUSE] += 1
            self._keep(Category.ROOT_CAUSE, RootCauseAsk(), finding, runs)

    def add_fix(self, runs: Runs, passes: bool) -> None:
        """Check every candidate about a changed program's values against both runs, and how the
        test fails with a change that is no fix."""
        if passes is runs.first.failed or passes is runs.second.failed:
            return
        if not passes:
            exception, assertion = ExceptionAsk(ends_test=True), AssertionAsk()
            self._check(Category.EXCEPTION, exception, runs)
            self._check(Category.ASSERTION, assertion, runs)
        asks = [ask for _, ask in candidates(runs.first, runs.program)]
        self._rng.shuffle(asks)
        for ask in asks:
            if not isinstance(ask, ValueAsk) or ask.after:
                continue
            finding = self._agreed(Category.POST_FIX, ask, runs)
            if finding is not None and isinstance(finding.truth, ValueTruth):
                truth = PostFixTruth(passes=passes, value=finding.truth)
                found = replace(finding, truth=truth)
                self._keep(Category.POST_FIX, PostFixAsk(value=ask), found, runs)

    def questions(self) -> list[Question]:
        """The chosen questions, up to the limit of each category and as different as possible: one
        from each group, then another."""
        chosen: list[Question] = []
        for category in Category:
            groups: dict[object, list[Question]] = defaultdict(list)
            for question, group in self._balanced(category):
                groups[group].append(question)
            rounds = zip_longest(*groups.values())
            spread = [each for one in rounds for each in one if each is not None]
            limit = self._config.limits.get(category, self._config.per_category)
            self.dropped[category][Drop.LIMIT] += len(spread[limit:])
            chosen += spread[:limit]
        return chosen

    def _balanced(self, category: Category) -> Iterator[tuple[Question, object]]:
        """Drop surplus "yes" answers on reachability, so that guessing does not pay: per bug, they
        exceed noes by at most one."""
        kept = [each for each in self._kept if each[0].category is category]
        truths = [question.truth for question, _ in kept]
        left = max(sum(isinstance(each, ReachTruth) and not each.reached for each in truths), 1)
        for question, group in kept:
            ask, truth = question.ask, question.truth
            plain = isinstance(ask, ReachAsk) and not ask.count
            yes = plain and isinstance(truth, ReachTruth) and truth.reached
            if yes and not left:
                self.dropped[category][Drop.UNBALANCED] += 1
            else:
                left -= yes
                yield question, group

    def _agreed(self, category: Category, ask: TracedAsk, runs: Runs) -> Finding | None:
        """The first run's answer, if there is one and the second run agrees."""
        one, other = find(ask, runs.first), find(ask, runs.second)
        place = ask.place if isinstance(ask, ValueAsk) else None
        if one is None and place is None:
            return None
        self.asked[category] += 1
        if one is None:
            self.dropped[category][Drop.UNREADABLE] += 1
            return None
        unsteady = place is not None and (place.file, place.function) in runs.unsteady
        if unsteady or other is None or one.truth != other.truth:
            self.dropped[category][Drop.NONDETERMINISTIC] += 1
            return None
        return one

    def _check(self, category: Category, ask: TracedAsk, runs: Runs) -> None:
        finding = self._agreed(category, ask, runs)
        if finding is not None:
            self._keep(category, ask, finding, runs)

    def _keep(self, category: Category, ask: Ask, finding: Finding, runs: Runs) -> None:
        """Keep a question if its answer is new and needs a run."""
        readable = is_readable(ask, finding.truth, runs)
        key = _key(category, ask, finding.truth, runs)
        if readable or key in self._known:
            self.dropped[category][Drop.ON_SOURCE if readable else Drop.DUPLICATE] += 1
            return
        self._known.add(key)
        question = self._written(category, ask, finding, runs)
        self._kept.append((question, _group(ask, finding.truth, runs)))

    def _written(self, category: Category, ask: Ask, finding: Finding, runs: Runs) -> Question:
        """The record of a question."""
        instance, seen = self._instance, finding.seen[0]
        facts = [instance.benchmark, instance.id, runs.test, runs.patch, ask.model_dump_json()]
        digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:10]
        rng = random.Random(f"{self._config.seed}\0{digest}")
        return Question(
            id=f"{instance.id}.{category}.{digest}",
            benchmark=instance.benchmark,
            instance_id=instance.id,
            instance_hash=instance.hash,
            repository=instance.repository,
            language=instance.language,
            category=category,
            question=_worded(ask, finding.truth, runs, rng),
            test=runs.test,
            hints=_hints(ask, rng),
            patch=runs.patch,
            ask=ask,
            truth=finding.truth,
            evidence=finding.seen,
            difficulty=Difficulty(
                hit=max(seen.hit, 1),
                depth=seen.depth,
                stops=sum(runs.first.hits.values()),
                in_test=seen.place.rpartition(":")[0] in runs.program.tests,
            ),
        )


def _group(ask: Ask, truth: Truth, runs: Runs) -> object:
    """Questions of one group are alike."""
    match ask, truth:
        case ReachAsk(place=place), ReachTruth(reached=reached):
            # A skipped line in a function that runs is harder than one in a function that doesn't.
            return reached, (place.file, place.function) in runs.first.entered
        case PostFixAsk(), _:
            return runs.patch
        case ValueAsk(place=place, expression=expression), _:
            return place.file, place.function, expression
    return runs.test


def _key(category: Category, ask: Ask, truth: Truth, runs: Runs) -> tuple[object, ...]:
    """Two questions with the same key count as one."""
    match ask, truth:
        case ValueAsk(), ValueTruth():
            return category, ask.place.file, ask.place.function, ask.expression, truth.text
        case ReachAsk(), ReachTruth():
            return category, ask.place, truth.reached
        case PostFixAsk(), PostFixTruth():
            value, text = ask.value, truth.value.text
            return category, runs.patch, value.place.function, value.expression, text
        case _, ExceptionTruth():
            return category, truth.type, truth.origin
        case _, AssertionTruth():
            return category, truth.place, truth.actual.text
    return category, runs.test


def _worded(ask: Ask, truth: Truth, runs: Runs, rng: random.Random) -> str:
    """The question's text."""
    about = ask.value if isinstance(ask, PostFixAsk) else ask
    values = {"changed": _changed(runs), "function": getattr(ask, "function", "")}
    if isinstance(about, ValueAsk | ReachAsk):
        place, module = about.place, runs.program.module(about.place.file)
        values |= {"place": str(place), "file": place.file, "line": str(place.line)}
        values["source"] = module.lines[place.line - 1].strip() if module is not None else ""
        values["function"] = place.function
    if isinstance(about, ValueAsk):
        values["expression"] = about.expression
        values |= {"hit": str(about.hit), "ordinal": ordinal(about.hit)}
    match ask:
        case ValueAsk(after=True):
            kind = "after"
        case ValueAsk():
            kind = "first_visit" if ask.hit == 1 else "later_visit"
        case ExceptionAsk():
            kind = "ending_exception" if ask.ends_test else "first_exception"
            kind = "function_exception" if ask.function else kind
        case AssertionAsk():
            compares = getattr(truth, "expected", None) is not None
            kind = "assertion" if compares else "truth_assertion"
        case ReachAsk():
            kind = "count" if ask.count else "reach"
        case RootCauseAsk() | PostFixAsk():
            kind = ask.kind
    text = rng.choice(WORDINGS[kind]).format(**values)
    if not values["changed"] or isinstance(ask, PostFixAsk):
        return text
    return f"{rng.choice(WORDINGS['after_edit']).format(**values)} {text}"


def _changed(runs: Runs) -> str:
    """What a patch changed, as `Cart.total` in shop/cart.py; empty without a patch."""
    for path in sorted(changed_paths(runs.patch)) if runs.patch else ():
        module = runs.program.modules.get(path)
        if module is not None:
            changed = changed_lines(reverse_patch(runs.patch))
            statements = [module.at(each.start) for each in changed if each.path == path]
            names = [each.place.function for each in statements if each is not None]
            return f"`{names[0]}` in {path}" if names else path
    return ""


def _hints(ask: Ask, rng: random.Random) -> Hints:
    """What the main agent gives besides the question: sometimes everything, sometimes less."""
    about = ask.value if isinstance(ask, PostFixAsk) else ask
    if not isinstance(about, ValueAsk | ReachAsk):
        return Hints()
    has_line, has_path, has_variables = rng.random() < 0.6, rng.random() < 0.8, rng.random() < 0.5
    variables = (about.expression,) if isinstance(about, ValueAsk) else ()
    return Hints(
        path=about.place.file if has_path else None,
        lines=(about.place.line,) if has_path and has_line else (),
        variables=variables if has_variables else (),
    )
