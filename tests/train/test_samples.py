"""The samples of a training, kept from one start to the next."""

from __future__ import annotations

from pathlib import Path

from train.stage import Sample, add_samples, read_samples


def sample(step: int, reply: str) -> Sample:
    return Sample(step=step, conversation_id="one", turn=0, teacher="so", reply=reply)


def test_samples_of_the_same_step_or_later_ones_are_replaced(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    assert read_samples(file) == []
    for step in (0, 2, 4):
        add_samples(file, [sample(step, f"reply {step}")])
    add_samples(file, [sample(2, "again")])
    assert [(each.step, each.reply) for each in read_samples(file)] == [
        (0, "reply 0"),
        (2, "again"),
    ]


def test_a_reply_with_other_ends_of_lines_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    add_samples(file, [sample(0, "one\u2028two\x85three\nfour")])
    assert [each.reply for each in read_samples(file)] == ["one\u2028two\x85three\nfour"]
