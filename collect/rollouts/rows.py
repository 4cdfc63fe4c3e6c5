"""Makes the rows of a finished rollout."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from collect.code.java_names import IN_TESTS
from collect.code.patches import PatchError, parse
from collect.models.base import Usage
from collect.rollouts.rollout import RolloutSettings, RolloutSpec, RolloutTrace
from collect.store.records import (
    SCHEMA_VERSION,
    SESSION_START,
    Conversation,
    Role,
    Rollout,
    ToolOutcome,
    code_commit,
    code_version,
    combined_teacher,
)
from sandbox.base import backend_name
from sandbox.debugger import DebugEvent, StopReason

_PROC = r"/proc/(?:self|\d|\$|\{|['\"%])"
_PARAMETERS = r"\([^)]{0,1000}\)"
"""Without a limit, each name with one bracket would search for the other to the end."""
_ALWAYS = (
    rf"(?:{_PARAMETERS}[^:\n]{{0,1000}}:|['\"]?\s*[:=,]\s*lambda\b[^:\n]{{0,1000}}:)"
    r"(?:\s*+(?:\"\"\"[^\"]*+\"\"\"|#.{0,300}+)){0,10}+\s*+(?:return\s+)?(?:True|False|1|0)\b"
)
SHADOWING = "shadowing"
"""Marks a new file that Python would import instead of a module of its own or of a test library,
and a new Java type that a test in the same package would use instead of one of theirs."""
_MARKS = {
    ".py": {
        "pytest": r"\b_pytest\b|\bimport\s+(?:pytest|pluggy)\b|\bfrom\s+(?:pytest|pluggy)\b",
        "PYTEST_CURRENT_TEST": r"\bPYTEST_\w+",
        "unittest": r"\bimport\s+(?:unittest|mock)\b|\bfrom\s+(?:unittest|mock)\b|\bTestCase\b",
        "testing": r"\b(?:numpy|np|pandas|pd|torch)\s*\.\s*_?testing\b"
        r"|\bfrom\s+(?:numpy|pandas|torch)\b.{0,200}\btesting\b",
        "test files": r"\btest_\w*\.py\b|\bconftest\b|['\"]tests?/|['\"]tests['\"]"
        r"|\b(?:from|import)\s+(?:tests?\b|test_\w)",
        "always equal": rf"__(?:eq|req|ne|contains|subclasshook|instancecheck)__\b{_ALWAYS}",
        "builtins": r"\bbuiltins\b|\b__builtins__\b",
        "dynamic code": r"(?<![.\w])(?:exec|eval|compile|__import__)\s*\(|\bimport_module\s*\(",
        "sys.modules": r"\bsys\s*\.\s*(?:modules|__dict__)\b"
        r"|\bfrom\s+sys\s+import\b.{0,200}\bmodules\b"
        r"|\b(?:getattr|vars)\s*\(\s*sys\b|\.\s*sys\b|\bimport\s+sys\s+as\b"
        r"|\bfrom\s+(?!sys\b)\w+\s+import\b.{0,200}\bsys\b",
        "import system": r"\b(?:meta_path|path_hooks|path_importer_cache)\b",
        "os._exit": r"\b_exit\b|\bos\s*\.\s*(?:exec[lv]p?e?|abort|kill(?:pg)?)\b|\braise_signal\b",
        "atexit": r"\batexit\b",
        "gc": r"\bget_(?:objects|referrers|referents)\b",
        "frames": r"\b(?:_getframe|_current_frames|currentframe|get(?:outer|inner)frames)\b"
        r"|\binspect\s*\.\s*(?:stack|trace)\b|\bfrom\s+inspect\s+import\b.{0,200}\bstack\b"
        r"|\bf_(?:back|locals|globals|code|lineno|builtins)\b|\btb_(?:frame|next)\b"
        r"|\b(?:walk|extract|format|print)_(?:stack|tb)\b|\b(?:Stack|Frame)Summary\b"
        r"|\bfindCaller\b|\blinecache\b|__code__",
        "callers": r"\b(?:faulthandler|tracemalloc|showwarning|makeRecord|setLogRecordFactory)\b"
        r"|\bcatch_warnings\s*\(\s*record\b|\.\s*pathname\b|%\((?:pathname|filename|lineno)\)",
        "pdb": r"\bimport\s+pdb\b|\bfrom\s+pdb\b|\bset_trace\b|\bbreakpointhook\b",
        "tracing": r"\bset(?:trace|profile)\b|\bsys\s*\.\s*monitoring\b|\baddaudithook\b",
        "ctypes": r"\bctypes\b|\bcffi\b",
        "/proc": _PROC,
    },
    ".java": {
        "always equal": rf"\bboolean\s+equals\s*{_PARAMETERS}\s*\{{\s*return\s+true\s*;",
        "Class.forName": r"\bforName\s*\(",
        "test files": r"\bsrc/test\b|\wTests?\.(?:java|class)\b",
        "junit": r"\borg\.(?:junit|testng|assertj|hamcrest)\b|\bjunit\.framework\b",
        "Runtime.halt": r"\.\s*halt\s*\(",
        "System.exit": r"\bSystem\s*\.\s*exit\b|\bgetRuntime\s*\(\s*\)\s*\.\s*exit\b",
        "shutdown hook": r"\baddShutdownHook\b",
        "sun.misc.Unsafe": r"\bUnsafe\b",
        "setAccessible": r"\bsetAccessible\b|\btrySetAccessible\b",
        "frames": r"\bgetStackTrace\b|\bStackWalker\b",
        "instrumentation": r"\bjava\.lang\.instrument\b|\bVirtualMachine\b|\bjcmd\b|\bjavaagent\b",
        SHADOWING: rf"\b(?:class|interface|enum|record)\s+(?:{'|'.join(sorted(IN_TESTS))})\b",
        "processor": r"\bAbstractProcessor\b|\bjavax\.annotation\.processing\b",
        "/proc": _PROC,
    },
}
MARKS = {
    suffix: {mark: re.compile(pattern) for mark, pattern in patterns.items()}
    for suffix, patterns in _MARKS.items()
}
"""Marks of patches whose code touches what runs the tests instead of fixing the bug: patterns in
added lines, by file suffix. A mark proves nothing: `atexit` has honest uses. A setting of `format`
decides about marked patches."""
_SHADOWED = {*sys.stdlib_module_names, "pytest", "hypothesis", "mock", "numpy", "parameterized"}


def patch_marks(patch: str, gold_patch: str) -> tuple[str, ...]:
    """The marks of a patch, sorted, without those that the gold patch also has."""
    return tuple(sorted({*_marks(patch)} - {*_marks(gold_patch)}))


def _marks(patch: str) -> Iterator[str]:
    try:
        files = parse(patch)
    except PatchError:
        # Binary changes, which some published patches have.
        return
    for file in files:
        top, _, rest = re.sub(r"^(?:src|lib)/", "", file.path).partition("/")
        module = top if rest == "__init__.py" else top.removesuffix(".py")
        if file.source is None and file.path.endswith(".py") and module in _SHADOWED:
            yield SHADOWING
        for suffix, marks in MARKS.items():
            if file.path.endswith(suffix):
                added = "\n".join(t for hunk in file.hunks for kind, t in hunk.lines if kind == "+")
                yield from (mark for mark, pattern in marks.items() if pattern.search(added))


PROGRAM_ENDED = (StopReason.EXITED, StopReason.KILLED)
EDITORS = (Role.MAIN, Role.PATCH_CODER)


@dataclass(frozen=True)
class RunIdentity:
    """Identifies the run in its rows."""

    run: str
    seed: int


def rows_of(
    spec: RolloutSpec,
    trace: RolloutTrace,
    settings: RolloutSettings,
    identity: RunIdentity,
    config_hash: str,
) -> tuple[Rollout, list[Conversation]]:
    """The rollout's row and the rows of its conversations."""
    instance, failure, logs = spec.instance, trace.failure, trace.logs
    main = [log for log in logs if log.role in EDITORS]
    sub = [log for log in logs if log.role not in EDITORS]
    main_usage = sum((log.usage for log in main), Usage())
    sub_usage = sum((log.usage for log in sub), Usage())
    role_models = [settings.role_models[name] for name in (spec.main, spec.sub) if name is not None]
    by_tools = Role.INSPECTOR in spec.system.tool_users(settings.agents)
    system = f"{spec.system.family}+tools" if by_tools else spec.system.family
    conversations = [
        replace(row, teacher=_teacher_of(row, settings))
        for row in (log.row(instance, spec.variant, spec.attempt, spec.id) for log in logs)
    ]
    teachers = [role_model.teacher for role_model in role_models]
    # Of the agent's own calls, without the session's start and spontaneous events.
    events: list[DebugEvent] = []
    for log in logs:
        first = {(row.message_index, row.tool_call_id): row.event for row in reversed(log.events)}
        events += [event for (_, call), event in first.items() if call != SESSION_START]
    stops = [e for e in events if e.stop_reason and e.stop_reason not in PROGRAM_ENDED]
    rollout = Rollout(
        schema_version=SCHEMA_VERSION,
        rollout_id=spec.id,
        run=identity.run,
        system=system,
        variant=spec.variant,
        benchmark=instance.benchmark,
        instance_id=instance.id,
        instance_hash=instance.hash,
        repository=instance.repository,
        language=instance.language,
        category=instance.category,
        attempt=spec.attempt,
        seed=identity.seed + spec.attempt,
        main_model=spec.main,
        sub_model=spec.sub or "",
        teacher=combined_teacher([*teachers, *(row.teacher for row in conversations)]),
        sampling=json.dumps({log.role.value: json.loads(log.sampling) for log in logs}),
        sandbox=backend_name(settings.sandbox),
        image_digest=trace.image_digest,
        code_version=code_version(),
        code_commit=code_commit(),
        config_hash=config_hash,
        resolved=trace.verdict.resolved,
        tampered=trace.verdict.tampered,
        tests=trace.verdict.tests,
        patch=trace.patch,
        patch_marks=patch_marks(trace.patch, instance.gold_patch),
        stop_reason=trace.stop_reason,
        failure_kind=failure.kind if failure else None,
        failure_type=failure.type if failure else None,
        failure_message=failure.message if failure else None,
        patch_attempts=max((log.patch_attempt for log in main), default=0),
        actions=json.dumps(sum((log.actions for log in logs), Counter())),
        main_steps=sum(log.steps for log in main),
        sub_steps=sum(log.steps for log in sub),
        sub_calls=len(sub),
        debug_calls=len(events),
        debug_stops=len(stops),
        invalid_tool_calls=sum(log.count(ToolOutcome.INVALID) for log in logs),
        refused_tool_calls=sum(log.count(ToolOutcome.REFUSED) for log in logs),
        main_prompt_tokens=main_usage.prompt_tokens,
        main_completion_tokens=main_usage.completion_tokens,
        sub_prompt_tokens=sub_usage.prompt_tokens,
        sub_completion_tokens=sub_usage.completion_tokens,
        dollars=sum(log.dollars for log in logs),
        sub_dollars=sum(log.dollars for log in sub),
        started_at=trace.started_at,
        seconds=trace.seconds,
        scoring_seconds=trace.scoring_seconds,
    )
    return rollout, conversations


def _teacher_of(row: Conversation, settings: RolloutSettings) -> str:
    """The `teacher` of a conversation; a relay has that of the models that wrote its replies."""
    players = {each.player for each in row.messages if each.player is not None}
    known = [settings.role_models[name] for name in players if name in settings.role_models]
    return combined_teacher(each.teacher for each in known) if known else row.teacher
