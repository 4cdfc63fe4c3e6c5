"""TRL's DPOTrainer over rows that are already encoded and masked."""

from __future__ import annotations

from typing import Any

import torch
from trl import DPOTrainer
from trl.trainer.dpo_trainer import DataCollatorForPreference


class MaskedPairs(DataCollatorForPreference):  # type: ignore[misc]
    """Counts the tokens that each side's mask selects, rather than all after the prompt."""

    def torch_call(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = super().torch_call(examples)
        masks = [each["chosen_mask"] for each in examples]
        masks += [each["rejected_mask"] for each in examples]
        prompts = [len(each["prompt_ids"]) for each in (*examples, *examples)]
        for row, mask, start in zip(batch["completion_mask"], masks, prompts, strict=True):
            row[start : start + len(mask)] = torch.tensor(mask, dtype=row.dtype)
        return batch


class PairTrainer(DPOTrainer):  # type: ignore[misc]
    """Takes rows of `prompt_ids`, `chosen_ids`, `rejected_ids` and the masks of the last two."""

    def _prepare_dataset(self, dataset: Any, *arguments: Any) -> Any:
        # TRL 1.16 would tokenise again, with no option to skip it.
        return dataset
