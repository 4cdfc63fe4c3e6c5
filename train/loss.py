"""The loss on a CPU, where TRL would score every token and then drop the ignored ones.

A row of an agent's conversation is mostly context, so the head's share of a step is mostly waste.
On a GPU TRL leaves the ignored tokens out by itself.
"""

from __future__ import annotations

import inspect
from typing import Any

from train.encoding import IGNORED

MAX_SCORED = 2_048
"""Positions whose logits are held at once; rows with more are left to TRL, which splits them."""


def trained_positions(labels: Any) -> Any:
    """The positions that are followed by a trained token in any row of the batch."""
    return (labels[:, 1:] != IGNORED).any(dim=0).nonzero().squeeze(1)


def next_token_logits(model: Any, inputs: dict[str, Any], positions: Any) -> tuple[Any, Any]:
    """Logits at the positions, and the tokens that follow them."""
    kept = {name: inputs[name] for name in ("input_ids", "attention_mask") if name in inputs}
    output = model(**kept, use_cache=False, logits_to_keep=positions)
    return output.logits.float(), inputs["labels"][:, positions + 1]


def can_skip(model: Any, arguments: Any) -> bool:
    """Whether the model can compute logits at chosen positions, and nothing else needs the rest."""
    text = model.config.get_text_config()
    plain = arguments.loss_type == "nll" and not arguments.label_smoothing_factor
    mixture = hasattr(text, "output_router_logits")
    return plain and not mixture and "logits_to_keep" in inspect.signature(model.forward).parameters


def trained_tokens_trainer() -> Any:
    """A class like SFTTrainer, with the same loss from the trained tokens' logits alone."""
    import torch
    from trl import SFTTrainer

    class TrainedTokensTrainer(SFTTrainer):  # type: ignore[misc]
        def compute_loss(
            self,
            model: Any,
            inputs: dict[str, Any],
            return_outputs: bool = False,
            num_items_in_batch: Any = None,
        ) -> Any:
            positions = trained_positions(inputs["labels"])
            if return_outputs or not 0 < len(positions) <= MAX_SCORED:
                return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
            logits, targets = next_token_logits(model, inputs, positions)
            count = (targets != IGNORED).sum()
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
            )
            loss = loss / (count if num_items_in_batch is None else num_items_in_batch)
            if self.args.average_tokens_across_devices and num_items_in_batch is not None:
                loss = loss * self.accelerator.num_processes
            self._note(inputs, logits.detach(), targets, count)
            return loss

        def _note(self, inputs: Any, logits: Any, targets: Any, count: Any) -> None:
            """The numbers that SFTTrainer logs beside the loss."""
            gather = self.accelerator.gather_for_metrics
            correct = ((logits.argmax(-1) == targets) & (targets != IGNORED)).sum()
            metrics = self._metrics["train" if self.model.training else "eval"]
            accuracy = gather(correct).sum() / gather(count).sum()
            metrics["mean_token_accuracy"].append(accuracy.item())
            if self.model.training:
                self._total_train_tokens += gather(inputs["attention_mask"].sum()).sum().item()
            metrics["num_tokens"] = [self._total_train_tokens]

    return TrainedTokensTrainer
