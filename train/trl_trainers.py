"""TRL's trainers over rows that are already encoded and masked. Imported only to train."""

from __future__ import annotations

from typing import Any

import torch
from trl import DPOTrainer, SFTTrainer
from trl.trainer.dpo_trainer import DataCollatorForPreference

from train.encoding import IGNORED


class MeasuringTrainer(SFTTrainer):  # type: ignore[misc]
    """Its test loss and metrics are means over all trained tokens.

    TRL's are means of batch means, in which rows with few tokens weigh too much.
    """

    def prediction_step(self, model: Any, inputs: Any, *options: Any, **named: Any) -> Any:
        self._leave_out_repeated(inputs["labels"])
        trained = int((inputs["labels"][:, 1:] != IGNORED).sum())
        loss, *rest = super().prediction_step(model, inputs, *options, **named)
        self._measured.append((loss.item() * trained, trained))
        return loss, *rest

    def _leave_out_repeated(self, labels: Any) -> None:
        """With several processes, the last ones repeat rows to have equally many batches."""
        state = self.accelerator.gradient_state
        if state.end_of_dataloader and state.remainder > 0 and not self.padding_free:
            own = state.remainder - self.accelerator.process_index * len(labels)
            labels[max(own, 0) :] = IGNORED

    def evaluation_loop(
        self, *arguments: Any, metric_key_prefix: str = "eval", **named: Any
    ) -> Any:
        self._measured: list[tuple[float, int]] = []
        output = super().evaluation_loop(*arguments, metric_key_prefix=metric_key_prefix, **named)
        batches = torch.tensor(self._measured, dtype=torch.float64, device=self.args.device)
        losses, trained = self.accelerator.reduce(batches, "sum").unbind(dim=1)
        output.metrics[f"{metric_key_prefix}_loss"] = (losses.sum() / trained.sum()).item()
        self._weigh(trained.tolist())
        return output

    def _weigh(self, trained: list[float]) -> None:
        """Replace the batch metrics by their means over the trained tokens."""
        noted = self._metrics["eval"]
        for name, values in noted.items():
            if len(values) == len(trained):
                weighted = sum(v * n for v, n in zip(values, trained, strict=True))
                noted[name] = [weighted / sum(trained)]


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
