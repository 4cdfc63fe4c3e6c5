"""TRL's SFTTrainer, with test measurements that don't depend on the batches."""

from __future__ import annotations

from typing import Any

import torch
from trl import SFTTrainer

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
