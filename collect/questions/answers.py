"""Who answers a file of questions, and what the answers came to."""

from __future__ import annotations

from pathlib import Path

from collect.benchmarks.opening import open_benchmark
from collect.benchmarks.splits import drawn
from collect.config import Machinery
from collect.questions.answered import Answers
from collect.questions.answering import answer_all, instances_of
from collect.questions.building import questions_path
from collect.questions.config import SOURCE_READER, QuestionsConfig
from collect.questions.records import read_questions
from collect.questions.source_reader import read_all


def answer(machinery: Machinery, config: QuestionsConfig, run: Path) -> Answers:
    """Answer the config's questions, those that have no answer yet, by the one that it names.

    Raises ConfigError.
    """
    every = read_questions(questions_path(config, run))
    questions = drawn(every, config.answer_shuffle_seed, config.answer_limit)
    if config.answerers == (SOURCE_READER,):
        instances = instances_of(open_benchmark(config.benchmark, machinery.sandbox), questions)
        return Answers(tuple(read_all(questions, instances)), 0, None)
    return answer_all(machinery, config, questions, run)
