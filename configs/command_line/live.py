"""The commands that debug the user's own repository: `mcp` for coding agents, `ask` without one."""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collect.agents.subagent_task import DebugSubagentArguments
from collect.benchmarks.config import BenchmarkConfig, RepositoryConfig
from collect.benchmarks.local import BUGS_FILE
from collect.config import SAVED_NAME
from collect.console import visible
from collect.errors import ConfigError, RolloutError, RolloutStopped
from collect.live.repository import LiveRepository
from collect.live.session import LiveSession, Ongoing, Subagent, Workplace
from collect.models.base import Sampling
from collect.models.config import (
    LocalConfig,
    RemoteConfig,
    VllmConfig,
    check_model_folder,
    read_json,
)
from collect.store.files import refuse_links
from collect.store.records import ToolOutcome, digest
from configs.command_line.shared import FAILED, add_overrides
from configs.loading import RunConfig, load_config, save_config
from sandbox import clean_up
from sandbox.environment import install_command
from sandbox.errors import DebuggerError

if TYPE_CHECKING:
    from collect.live.recording import Recording

logger = logging.getLogger(__name__)
PATH_MODEL = "debugger"
"""The name of a model that is given as a folder."""
TOKEN = "STEPINTO_MCP_TOKEN"
OF_THE_REPOSITORY = frozenset({*RepositoryConfig.model_fields, "language", "test_timeout"})
"""Keys of `collect.benchmark` that may be given by their own names."""
LINES = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")
MOST_LINES = 100
PR_SET_PDEATHSIG = 1


def _add_shared(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--repo", type=Path, default=Path(), metavar="FOLDER", help="the repository (.)")
    told = "who answers: a model of CONFIG, or the folder of a trained one"
    add("--model", metavar="NAME|FOLDER", help=told)
    told = "seconds for one answer (600)"
    add("--timeout", type=float, default=600.0, metavar="SECONDS", help=told)


def add_mcp(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("config", nargs="?", help="a shipped config, a YAML file or a run folder: models, settings")
    add_overrides(parser)
    _add_shared(parser)
    add("--http", metavar="HOST:PORT", help="serve by streamable HTTP, not over stdin and stdout")
    told = f"the token that HTTP clients must send (or ${TOKEN})"
    add("--token-file", type=Path, metavar="FILE", help=told)
    add("--record", type=Path, metavar="RUN", help="keep the sessions as rollouts of this run")
    told = "with --record: a test that decides whether a session resolved the bug; several times"
    add("--test", action="append", default=[], metavar="TEST", help=told)
    add("--skill", action="store_true", help="print a skill file for coding agents, and end")
    parser.set_defaults(command=mcp)


def add_ask(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("question", help="what you want to know about the program's run")
    add_overrides(parser)
    _add_shared(parser)
    add("--config", metavar="CONFIG", help="a shipped config, a YAML file or a run folder")
    add("--test", required=True, help="the test that shows it: tests/test_a.py::test_x")
    add("--path", help="the file to look at")
    add("--lines", help="lines of it to stop at: 40, or 30-35,40")
    add("--variables", help="variables and expressions that matter: a,b")
    parser.set_defaults(command=ask)


def mcp(options: argparse.Namespace) -> int:
    """Serve the debug subagent and the debug tools to coding agents."""
    try:
        from collect.live import server
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error}: `stepinto mcp` needs it: {install_command('mcp')}") from error
    if options.skill:
        print(server.skill(), end="")
        return 0
    if options.test and options.record is None:
        raise ConfigError("--test says how a recorded session ended: give --record too")
    address = server.Address.read(options.http) if options.http else None
    if options.record is not None and address is None:
        _outlive_client()
    token = _token(options.token_file)
    config, place = opened(options)
    options.test = [place.repository.inside_test(test) for test in options.test]
    files = place.repository.files() if options.test else {}
    for test in options.test:
        if (refused := place.repository.not_decided_by(files, test)) is not None:
            raise ConfigError(f"--test: {refused}")
    recording = None
    try:
        if options.record is not None:
            recording = _recording(options, config, place)
        live = server.LiveServer(place, recording)
        if address is not None:
            server.serve_http(live, address, token)
        else:
            server.serve_stdio(live)
    finally:
        if recording is not None:
            recording.store.close()
        if place.subagent is not None:
            place.subagent.close()
    return 0


def _outlive_client() -> None:
    """Go on in a child process with a session of its own, which is told when this one is ended:
    clients kill what they started when they leave, and the record's tests take longer."""
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status))
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def ask(options: argparse.Namespace) -> int:
    """Ask the debug subagent one question, and print its answer."""
    if options.lines and not options.path:
        raise ConfigError("--lines are lines of a file: give --path too")
    names = [name.strip() for name in (options.variables or "").split(",") if name.strip()]
    lines = _lines(options.lines) if options.lines else None
    _, place = opened(options)
    if place.subagent is None:
        raise ConfigError(
            "nobody is there to ask: give --model, the folder of a model from `stepinto train`, or "
            "the name of a model of --config"
        )
    inside = place.repository.inside
    arguments = DebugSubagentArguments(
        question=options.question,
        test=place.repository.inside_test(options.test),
        path=inside(options.path) if options.path else options.path,
        lines=lines,
        variables=tuple(names) or None,
    )
    session = LiveSession(place)
    ongoing = Ongoing(_report, place.answer_seconds)
    try:
        reply = session.ask(arguments, ongoing)
    except (RolloutError, RolloutStopped, DebuggerError) as error:
        raise ConfigError(f"{place.subagent.name} gave no answer: {error}") from error
    finally:
        session.close()
        place.subagent.close()
    print(visible(reply.with_notes))
    return 0 if reply.outcome is ToolOutcome.OK else FAILED


def _report(step: int, most: int, what: str) -> None:
    print(visible(f"step {step} of {most}: {what}"), file=sys.stderr, flush=True)


def _lines(text: str) -> tuple[int, ...]:
    """The lines of `40`, `30-35` or `30-35,40`. Raises ConfigError."""
    lines: dict[int, None] = {}
    for part in text.split(","):
        found = LINES.fullmatch(part.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not 0 < first <= last < first + MOST_LINES:
            raise ConfigError(
                f"--lines {text}: give lines such as 40, 30-35 or 30-35,40; a range has at most "
                f"{MOST_LINES}"
            )
        lines |= dict.fromkeys(range(first, last + 1))
    return tuple(lines)


def opened(options: argparse.Namespace) -> tuple[RunConfig, Workplace]:
    """The config with the model, and the repository. Raises ConfigError."""
    source, overrides = options.config, options.overrides
    if source is not None and "=" in source and not Path(source).exists():
        source, overrides = None, [source, *overrides]
    folder = Path(options.model) if options.model else None
    if source is None and folder is not None and (folder.parent / SAVED_NAME).is_file():
        source = folder.parent  # the run that trained it
    overrides = [*map(_whole_name, overrides)]
    path = Path(source) if source is not None else None
    config = load_config(path, overrides, own_repository=True)
    config, name = _with_model(config, options.model)
    clean_up(config.sandbox)
    repository = LiveRepository(options.repo, config.collect.benchmark, config.sandbox)
    subagent = Subagent(config, name) if name is not None else None
    if subagent is not None:
        subagent.warn_of_other_form(repository.language)
    return config, Workplace(repository, config, subagent, options.timeout)


def _whole_name(override: str) -> str:
    """`packages=[numpy]` as `collect.benchmark.packages=[numpy]`; other settings as they are."""
    name = re.split("[.=]", override)[0]
    return f"collect.benchmark.{override}" if name in OF_THE_REPOSITORY else override


def _with_model(config: RunConfig, given: str | None) -> tuple[RunConfig, str | None]:
    """The config, with a folder's model among its models; and who answers, if anyone does."""
    playable = (RemoteConfig, VllmConfig, LocalConfig)
    if given is None:
        usual = config.models.get(config.collect.sub)
        return config, config.collect.sub if isinstance(usual, playable) else None
    if given in config.models or not Path(given).is_dir():
        if given not in config.models and "/" in given:
            raise ConfigError(f"--model {given}: no such folder")
        return config, given
    folder = Path(given).resolve()
    for name, known in config.models.items():
        if isinstance(known, LocalConfig) and Path(known.model).resolve() == folder:
            return config, name
    files: dict[str, Any] = {"model": str(folder)}
    if (adapter := read_json(folder / "adapter_config.json")) is not None:
        template = folder / "chat_template.jinja"
        base = adapter.get("base_model_name_or_path")
        if not isinstance(base, str) or not base:
            raise ConfigError(
                f"--model {given} is an adapter that does not say of which model; merge it into "
                "its model, and give that"
            )
        files = {"model": base, "adapter": folder}
        files["chat_template"] = template if template.is_file() else None
    check_model_folder(files["model"])
    model = LocalConfig(backend="local", **files, sampling=Sampling(temperature=0, max_tokens=512))
    return config.model_copy(update={"models": {**config.models, PATH_MODEL: model}}), PATH_MODEL


def _token(path: Path | None) -> str | None:
    if path is None:
        return os.environ.get(TOKEN) or None
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--token-file {path} can't be read: {error}") from error
    if not token:
        raise ConfigError(f"--token-file {path} is empty: write a token into it")
    return token


def _recording(options: argparse.Namespace, config: RunConfig, place: Workplace) -> Recording:
    """The run folder to record into, opened. Raises ConfigError if it is another run's."""
    from collect.live.recording import Recording

    folder: Path = options.record
    name = place.subagent.name if place.subagent is not None else None
    benchmark = BenchmarkConfig(name="local", path=str(folder / BUGS_FILE), language="all")
    collect = config.collect.model_copy(update={"benchmark": benchmark, "sub": name or "oracle"})
    agents = config.agents.model_copy(update={"main_debug_tools": True})
    update = {"run": folder.name, "runs_folder": folder.parent, "collect": collect}
    kept = config.model_copy(update=update | {"agents": agents})
    kept = RunConfig.model_validate(kept.model_dump())
    told = f"--record {folder}: "
    refuse_links(folder)
    if (folder / SAVED_NAME).is_file():
        earlier, now = (
            load_config(folder, tell=False).model_dump(mode="json"),
            kept.model_dump(mode="json"),
        )
        other = [key for key in now if now[key] != earlier[key]]
        if other:
            raise ConfigError(
                f"{told}this run has another config ({', '.join(other)}); take another folder"
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{told}there is something else; take a folder that is not there yet")
    recording = Recording(folder, kept, name, digest(kept.model_dump(mode="json")), options.test)
    save_config(kept)
    return recording
