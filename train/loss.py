"""The loss on a CPU, where TRL would read every row in full, score every token, and drop most.

A row of an agent's conversation is mostly context, so the head's share of a step is mostly waste.
And the rows of an agent begin alike, with its system prompt and tools: a batch reads them once.
On a GPU TRL leaves the ignored tokens out by itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from train.encoding import IGNORED

MAX_SCORED = 4_096
"""Tokens whose logits are held at once; batches with more are left to TRL, which splits them."""
MIN_SHARED = 32
"""Tokens; a shorter beginning is not worth reading apart."""


def trained_logits(model: Any, inputs: dict[str, Any], shared: int) -> tuple[Any, Any]:
    """Logits before each trained token of a batch, row after row, and these tokens.

    The first `shared` tokens are taken to be alike in all rows, and read once: gradients of all
    rows flow through them. The rest is read row by row, so that nothing is spent on padding, which
    is taken to be at the end.
    """
    import torch
    from transformers import DynamicCache

    ids, labels = inputs["input_ids"], inputs["labels"]
    beginning = _keys_and_values(model, ids[:1, :shared]) if shared else None
    logits, targets = [], []
    for row, length in enumerate(inputs["attention_mask"].sum(dim=1).tolist()):
        places = (labels[row, 1:length] != IGNORED).nonzero().squeeze(1)
        if len(places):
            with _scored_at(model.get_output_embeddings(), places - shared):
                output = model(
                    input_ids=ids[row : row + 1, shared:length],
                    past_key_values=DynamicCache(beginning) if beginning else None,
                    use_cache=beginning is not None,
                )
            logits.append(output.logits[0].float())
            targets.append(labels[row, places + 1])
    return torch.cat(logits), torch.cat(targets)


def _keys_and_values(model: Any, ids: Any) -> list[tuple[Any, Any]]:
    """Of every layer, with their gradients."""
    cache = model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values
    return [(layer.keys, layer.values) for layer in cache.layers]


@contextmanager
def _scored_at(head: Any, places: Any) -> Iterator[None]:
    """Within, the head sees these places alone."""

    def choose(_: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return (arguments[0][:, places], *arguments[1:])

    handle = head.register_forward_pre_hook(choose)
    try:
        yield
    finally:
        handle.remove()


def shared_beginning(inputs: dict[str, Any]) -> int:
    """How many tokens the rows of a batch have in common from the start, none of them trained.

    The last token before a trained one is not counted: its logits are needed in each row.
    """
    ids, mask, labels = (inputs[name] for name in ("input_ids", "attention_mask", "labels"))
    if len(ids) < 2:
        return 0
    alike = (ids == ids[:1]) & (mask == 1)
    alike[:, :-1] &= labels[:, 1:] == IGNORED
    shared = int(alike.all(dim=0).cumprod(dim=0).sum())
    return shared if MIN_SHARED <= shared < ids.shape[1] else 0


def can_skip(model: Any, arguments: Any) -> bool:
    """Whether the model can compute logits at chosen positions, and nothing else needs the rest.

    Several processes must all read their rows in as many passes, so they are left to TRL.
    """
    text = model.config.get_text_config()
    plain = arguments.loss_type == "nll" and not arguments.label_smoothing_factor
    in_rows = not arguments.packing and not arguments.padding_free
    mixture = hasattr(text, "output_router_logits")
    chosen = "logits_to_keep" in inspect.signature(model.forward).parameters
    return plain and in_rows and not mixture and chosen and arguments.world_size == 1


def trained_tokens_trainer() -> Any:
    """A class like MeasuringTrainer, with the same loss from the trained tokens' logits alone."""
    import torch

    from collect.models.prefix_cache import supports_prefix_cache
    from train.measuring import MeasuringTrainer

    class TrainedTokensTrainer(MeasuringTrainer):
        def compute_loss(
            self,
            model: Any,
            inputs: dict[str, Any],
            return_outputs: bool = False,
            num_items_in_batch: Any = None,
        ) -> Any:
            trained = int((inputs["labels"][:, 1:] != IGNORED).sum())
            if return_outputs or not 0 < trained <= MAX_SCORED:
                return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
            shared = shared_beginning(inputs) if self._can_share(model) else 0
            logits, targets = trained_logits(model, inputs, shared)
            loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
            loss = loss / (trained if num_items_in_batch is None else num_items_in_batch)
            self._note(inputs, logits.detach(), targets)
            return loss

        def _can_share(self, model: Any) -> bool:
            return not self.args.gradient_checkpointing and supports_prefix_cache(model)

        def _note(self, inputs: Any, logits: Any, targets: Any) -> None:
            """The numbers that SFTTrainer logs beside the loss."""
            metrics = self._metrics["train" if self.model.training else "eval"]
            accuracy = (logits.argmax(-1) == targets).float().mean()
            metrics["mean_token_accuracy"].append(accuracy.item())
            if self.model.training:
                self._total_train_tokens += inputs["attention_mask"].sum().item()
            metrics["num_tokens"] = [self._total_train_tokens]

    return TrainedTokensTrainer
