"""Training on rewards: real debug sessions, driven by TRL with a tiny model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig

from collect.agents.config import AgentsConfig
from collect.agents.debug2fix import subagent_schemas
from collect.benchmarks.base import Instance
from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.held_out import HeldOutConfig
from collect.config import RuntimeConfig
from collect.control_tokens import OF_KNOWN_FAMILIES
from collect.errors import ConfigError
from collect.models.config import trained_on
from collect.question_records import Category, Location, Question, ValueAsk, ValueTruth
from collect.questions.asking import EpisodeSettings
from collect.questions.scoring import Reward
from sandbox import SandboxConfig
from sandbox.errors import SandboxError
from tests.collect.questions.asked import question
from tests.shop_bug import write_shop
from tests.tiny_model import build_tiny_model
from train.config import GrpoSettings, RewardSettings, TrainConfig
from train.job import QuestionBench
from train.methods.grpo import (
    PARTS,
    DebugEnvironment,
    Episodes,
    ToolMethod,
    reward_function,
    scored,
)
from train.stage import run_train
from train.trl_trainers import RewardTrainer

LINE = 20
START = {
    "test": "tests/test_shop.py::test_total",
    "breakpoints": [f"shop.py:{LINE}"],
    "stop_at_test": False,
}
WATCHING = START | {"watch": ["net"]}
CALL = (
    f"<tool_call>\n{json.dumps({'name': 'debug_start_session', 'arguments': START})}\n</tool_call>"
)


def answer(value: int) -> str:
    return (
        f"<debug_answer>\nQuestion: net?\nAnswer: `net` is {value}.\nEvidence: locals\n"
        f"Location: shop.py:{LINE}\n</debug_answer>"
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def bug(shop: Path) -> Instance:
    return BundledBenchmark(shop).instances()[0]


@pytest.fixture(scope="module")
def asked(bug: Instance) -> Question:
    place = Location(file="shop.py", line=LINE, last_line=LINE, function="Cart.total")
    made = question(
        Category.LOCAL,
        ValueAsk(expression="net", place=place, hit=1),
        ValueTruth(type="int", text="47"),
    )
    return made.model_copy(
        update={
            "benchmark": bug.benchmark,
            "instance_id": bug.id,
            "instance_hash": bug.hash,
            "repository": bug.repository,
            "question": f"What is `net` at shop.py:{LINE}?",
            "test": "tests/test_shop.py::test_total",
        }
    )


COMPACT = AgentsConfig(sub_max_steps=2, subagent_form="compact")


def episodes_of(shop: Path, bug: Instance, folder: Path) -> Episodes:
    settings = EpisodeSettings(BundledBenchmark(shop), SandboxConfig(), COMPACT)
    return Episodes(
        settings,
        {bug.id: bug},
        control_tokens=OF_KNOWN_FAMILIES,
        give_up_after=2,
        failures=folder / "failures.jsonl",
    )


@pytest.fixture
def episodes(shop: Path, bug: Instance, tmp_path: Path) -> Iterator[Episodes]:
    made = episodes_of(shop, bug, tmp_path)
    yield made
    made.close()


def call_of(environment: DebugEnvironment, name: str, **arguments: Any) -> str:
    tool = getattr(environment, name)
    assert isinstance(tool, ToolMethod)
    return tool(**arguments)


def said(text: str, calls: int = 0) -> list[dict[str, Any]]:
    """A conversation after its prompt."""
    called = {"role": "assistant", "content": "", "tool_calls": [{}] * calls}
    return [called, {"role": "tool"}, {"role": "assistant", "content": text}]


def test_the_reward_is_the_verdict_on_a_real_session(episodes: Episodes, asked: Question) -> None:
    environment = episodes.factory("python")()
    tools = [getattr(environment, each["function"]["name"]) for each in environment.schemas]
    assert tools == subagent_schemas("python", COMPACT)
    method = vars(type(environment))["debug_inspect"]
    assert method.__doc__.startswith("debug_inspect\n\nArgs:\n")
    environment.reset(question=asked.model_dump_json(), prompt=[])
    told = call_of(environment, "debug_start_session", **WATCHING)
    assert told.startswith(f"Paused at shop.py:{LINE}")
    wrong = call_of(environment, "debug_inspect", what="everything")
    assert wrong.startswith("Error: The arguments of debug_inspect are wrong")
    assert "answer" in wrong.rpartition("\n\n")[2]
    rewards = [reward_function(part, RewardSettings()) for part in PARTS]
    completions = [said(answer(47), calls=3)]
    values = [each(completions, [environment])[0] for each in rewards]
    assert values == [1.0, 1.0, 1.0, pytest.approx(-2 / 3)]
    assert environment.episode is not None


def test_a_refused_call_counts_as_an_invalid_one(episodes: Episodes, asked: Question) -> None:
    environment = episodes.factory("python")()
    environment.reset(question=asked.model_dump_json())
    assert "post mortem" in call_of(environment, "debug_control", action="continue")
    assert "not_allowed" in call_of(environment, "debug_control", action="step_over")
    found = scored(environment, said(answer(48), calls=2), RewardSettings())
    assert found == Reward(0, 0, 1, -0.5)


def test_half_a_character_is_told_as_tokenizers_take_it(
    episodes: Episodes, asked: Question
) -> None:
    environment = episodes.factory("python")()
    environment.reset(question=asked.model_dump_json(), prompt=[])
    call_of(environment, "debug_start_session", **START)
    half = r"type('Half', (), {'__repr__': lambda self: 'half \ud83d'})()"
    told = call_of(environment, "debug_inspect", what="evaluate", expression=half)
    assert "half \ufffd" in told


@pytest.mark.parametrize(
    ("text", "session", "score"),
    [
        (answer(48), True, Reward(0, 0, 1, 0)),
        ("`net` is 47.", True, Reward(0, 0, 0, 0)),
        (answer(47), False, Reward(0, 0, 0, 0)),
        # It looked right, but nothing showed it.
        (answer(47), True, Reward(0, 1, 1, 0)),
    ],
)
def test_what_is_no_right_answer(
    episodes: Episodes, asked: Question, text: str, session: bool, score: Reward
) -> None:
    environment = episodes.factory("python")()
    environment.reset(question=asked.model_dump_json())
    assert environment.episode is not None
    if session:
        call_of(environment, "debug_start_session", **START)
    found = scored(environment, said(text, calls=int(session)), RewardSettings())
    assert found == score


def test_a_dead_sandbox_has_no_reward(episodes: Episodes, asked: Question, tmp_path: Path) -> None:
    environment = episodes.factory("python")()
    environment.reset(question=asked.model_dump_json())
    assert environment.episode is not None
    environment.episode.close()
    assert "sandbox has failed" in call_of(environment, "grep", pattern="net")
    rewards = [reward_function(part, RewardSettings()) for part in PARTS]
    assert [each([said(answer(47))], [environment]) for each in rewards] == [[None]] * 4
    unfit = "--- a/none.py\n+++ b/none.py\n@@ -1 +1 @@\n-x\n+y\n"
    environment.reset(question=asked.model_copy(update={"patch": unfit}).model_dump_json())
    assert environment.failure is not None
    with pytest.raises(SandboxError, match="2 episodes in a row failed"):
        rewards[0]([said(answer(47))], [environment])
    assert len((tmp_path / "failures.jsonl").read_text().splitlines()) == 2


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Of torch: several wait for each other for longer than a tiny model takes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def run(tmp_path: Path, asked: Question) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "questions.jsonl").write_text(asked.model_dump_json() + "\n")
    return folder


def script(tiny: Path, *answers: str) -> list[list[Any]]:
    """Biases that make any model first call the debugger, and then give one of the answers."""
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    biases: dict[tuple[int, ...], float] = {}
    after = "</tool_response><|im_end|>\n"
    for before, reply, bias in [("", CALL, 1e4), *((after, each, 1e6) for each in answers)]:
        start = tokenizer(f"{before}<|im_start|>assistant\n")["input_ids"]
        ids = tokenizer(f"{reply}<|im_end|>")["input_ids"]
        for end in range(1, len(ids) + 1):
            biases[tuple(start + ids[:end])] = bias
    return [[list(ids), bias] for ids, bias in biases.items()]


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_a_step_on_real_sessions(shop: Path, run: Path, tmp_path: Path) -> None:
    tiny = build_tiny_model(tmp_path / "tiny", context=16_384)
    config = TrainConfig(
        method="grpo",
        base_model=str(tiny),
        max_steps=1,
        batch_size=2,
        gradient_accumulation=1,
        learning_rate=1e-2,
        seed=2,
        device="cpu",
        grpo=GrpoSettings(
            questions=str(run / "questions.jsonl"),
            generations=2,
            max_completion_length=2_000,
            # The two answers are about as likely then, whatever the random weights say.
            temperature=100.0,
        ),
        trainer_arguments={
            "generation_kwargs": {"sequence_bias": script(tiny, answer(47), answer(8))}
        },
    )
    benchmark = BenchmarkConfig(name="bundled", path=str(shop))
    bench = QuestionBench(
        RuntimeConfig(agents=COMPACT.model_copy(update={"sub_max_steps": 3})), benchmark
    )
    report = run_train(config, run, bench=bench)
    metrics = report.loss_curve[0].metrics
    # The session did not show the value.
    assert metrics["rewards/facts/mean"] == 0.5
    assert metrics["rewards/correct/mean"] == 0
    assert report.loss_curve[0].loss
    assert metrics["rewards/form/mean"] == 1
    assert metrics["tools/call_frequency"] == 1
    assert metrics["episodes/failed"] == 0
    assert metrics["episodes/groups_dropped"] == 0
    assert trained_on(str(run / "model")) == {"shop"}
    assert (run / "model" / "config.json").is_file()
    held_out = QuestionBench(RuntimeConfig(), benchmark, HeldOutConfig(repositories=("shop",)))
    with pytest.raises(ConfigError, match="none of its 1 questions is left"):
        run_train(config, run, bench=held_out)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_a_missing_vllm_is_told_before_training(run: Path, tiny_folder: Path) -> None:
    arguments = {"use_vllm": True}
    config = TrainConfig(
        method="grpo", base_model=str(tiny_folder), device="cpu", trainer_arguments=arguments
    )
    with pytest.raises(ConfigError, match=r"use_vllm needs vLLM.*\.\[grpo\]"):
        run_train(config, run)


@pytest.mark.usefixtures("one_thread")
def test_a_group_of_equal_rewards_is_dropped_and_counted(tiny_folder: Path, tmp_path: Path) -> None:
    """So is one of which a single episode did not fail."""
    trainer = RewardTrainer(
        model=AutoModelForCausalLM.from_pretrained(tiny_folder),
        reward_funcs=[lambda prompts, **_: [1.0, 1.0, 0.0, 1.0, None, 1.0]],
        args=GRPOConfig(
            output_dir=str(tmp_path),
            num_generations=2,
            per_device_train_batch_size=6,
            max_completion_length=3,
            use_cpu=True,
            bf16=False,
            report_to="none",
        ),
        train_dataset=Dataset.from_list([{"prompt": "net?"}] * 3),
        processing_class=AutoTokenizer.from_pretrained(tiny_folder),
    )
    trainer.model.train()
    batch = trainer._generate_and_score_completions([{"prompt": "net?"}] * 6)
    trained = batch["tool_mask"].sum(dim=1)
    assert (trained > 0).tolist() == [False, False, True, True, False, False]
    assert batch["num_items_in_batch"] == trained.sum()
    assert trainer._metrics["train"]["episodes/groups_dropped"] == [2.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 3, "gradient_accumulation": 1}, "does not divide"),
        ({"trainer_arguments": {"temprature": 1}}, "did you mean 'temperature"),
        ({"trainer_arguments": {"reward_weights": [1]}}, r"is set by train\.grpo\.rewards"),
        ({"batch_size": 8, "gradient_accumulation": 1}, "there is no file"),
    ],
)
def test_what_can_not_work_is_refused(
    tmp_path: Path, tiny_folder: Path, changes: dict[str, Any], message: str
) -> None:
    config = TrainConfig(method="grpo", base_model=str(tiny_folder), **changes)
    with pytest.raises(ConfigError, match=message):
        run_train(config, tmp_path)
