"""What an episode is worth: the scorer's verdict on its final answer, and a little shaping.

Each part is a reward function of TRL's, logged and weighed by itself. An episode whose sandbox
failed has no reward in any of them: TRL then leaves it out of its group's mean, and its advantage
is zero, so that it moves the model neither way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from collect.agents.answer import parse_answer
from collect.questions.episode import Episode, invalid
from collect.questions.scoring import score_text
from train.config import RewardSettings
from train.environments import DebugEnvironment, end_episode

Message = Mapping[str, Any]
Reward = Callable[..., list[float | None]]


@dataclass(frozen=True)
class Score:
    """One episode, part by part; `RewardSettings` says what each is."""

    correct: float
    facts: float
    form: float
    invalid_calls: float


PARTS = tuple(Score.__dataclass_fields__)


def final_answer(completion: Sequence[Message]) -> str:
    """The text of the last message, where that is the model's."""
    last = completion[-1] if completion else {}
    return str(last.get("content") or "") if last.get("role") == "assistant" else ""


def score_episode(
    episode: Episode, completion: Sequence[Message], settings: RewardSettings
) -> Score:
    """What came of an episode, of which `completion` is the conversation after its prompt."""
    text = final_answer(completion)
    verdict = score_text(episode.question, text)
    counts = episode.has_session or not settings.require_session
    calls = sum(len(message.get("tool_calls") or ()) for message in completion)
    # Those that TRL could not give to any tool, beside those that a tool has refused.
    lost = max(calls - len(episode.outcomes), 0)
    return Score(
        correct=float(verdict.correct and counts),
        facts=verdict.share if counts else 0.0,
        form=float(parse_answer(text) is not None),
        invalid_calls=-(invalid(episode.outcomes) + lost) / calls if calls else 0.0,
    )


def scored(
    environment: DebugEnvironment, completion: Sequence[Message], settings: RewardSettings
) -> Score | None:
    """The score of an ended episode, and its sandbox closed; None where that failed."""
    episode = environment.episode
    if environment.failure is not None or episode is None:
        end_episode(environment)
        return None
    if environment.score is None:
        environment.score = score_episode(episode, completion, settings)
        end_episode(environment)
    score: Score = environment.score
    return score


def reward_functions(settings: RewardSettings) -> list[Reward]:
    """One for each part of a score, in the order of `PARTS`."""
    return [_reward(part, settings) for part in PARTS]


def reward_weights(settings: RewardSettings) -> list[float]:
    """In the same order."""
    return [float(getattr(settings, part)) for part in PARTS]


def _reward(part: str, settings: RewardSettings) -> Reward:
    def reward(
        completions: Sequence[Sequence[Message]],
        environments: Sequence[DebugEnvironment],
        log_metric: Callable[[str, float], None] | None = None,
        **others: Any,
    ) -> list[float | None]:
        pairs = zip(environments, completions, strict=True)
        scores = [scored(environment, completion, settings) for environment, completion in pairs]
        if part == PARTS[0] and log_metric is not None:
            log_metric("episodes/failed", sum(each is None for each in scores) / len(scores))
        return [None if each is None else asdict(each)[part] for each in scores]

    reward.__name__ = part
    return reward
