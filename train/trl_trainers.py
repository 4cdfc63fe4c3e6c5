"""TRL's trainers over rows that are already encoded and masked. Imported only to train."""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import Any

import torch
from transformers import DynamicCache
from trl import DPOTrainer, GRPOTrainer, SFTTrainer
from trl.trainer.dpo_trainer import DataCollatorForPreference

from collect.control_tokens import ControlTokens
from collect.models.local_generation import keeps_all_keys
from train.encoding import IGNORED

MAX_SCORED = 4_096
"""Tokens whose logits are held at once; larger batches are left to TRL, which splits them."""
MIN_SHARED = 32
"""Tokens; a shorter shared beginning is not worth a separate pass."""


class TrainedTokensTrainer(SFTTrainer):  # type: ignore[misc]
    """Computes the same loss on a CPU from trained tokens' logits only.

    TRL reads every row in full and computes logits for every token. In agent conversations most
    tokens are context, so most of the head's work is wasted. Rows also begin alike, with the system
    prompt and tools, so a batch reads that part once. On a GPU TRL skips ignored tokens by itself.
    """

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
        can_share = not self.args.gradient_checkpointing and keeps_all_keys(model)
        shared = shared_beginning(inputs) if can_share else 0
        logits, targets = trained_logits(model, inputs, shared)
        loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
        # The numbers that SFTTrainer logs beside the loss.
        metrics = self._metrics["train" if self.model.training else "eval"]
        accuracy = (logits.detach().argmax(-1) == targets).float().mean()
        metrics["mean_token_accuracy"].append(accuracy.item())
        if self.model.training:
            self._total_train_tokens += inputs["attention_mask"].sum().item()
        metrics["num_tokens"] = [self._total_train_tokens]
        return loss / (trained if num_items_in_batch is None else num_items_in_batch)


def can_skip(model: Any, arguments: Any) -> bool:
    """Whether the model can compute logits at chosen positions, and nothing needs the others.

    With several processes all must make the same number of passes, so TRL does it.
    """
    text = model.config.get_text_config()
    plain = arguments.loss_type == "nll" and not arguments.label_smoothing_factor
    in_rows = not arguments.packing and not arguments.padding_free
    mixture = hasattr(text, "output_router_logits")
    chosen = "logits_to_keep" in inspect.signature(model.forward).parameters
    return plain and in_rows and not mixture and chosen and arguments.world_size == 1


def shared_beginning(inputs: dict[str, Any]) -> int:
    """Number of leading tokens that all rows of a batch share, none of them trained.

    Excludes the last token before a trained one, whose logits each row needs.
    """
    ids, mask, labels = (inputs[name] for name in ("input_ids", "attention_mask", "labels"))
    if len(ids) < 2:
        return 0
    alike = (ids == ids[:1]) & (mask == 1)
    alike[:, :-1] &= labels[:, 1:] == IGNORED
    shared = int(alike.all(dim=0).cumprod(dim=0).sum())
    return shared if MIN_SHARED <= shared < ids.shape[1] else 0


def trained_logits(model: Any, inputs: dict[str, Any], shared: int) -> tuple[Any, Any]:
    """Logits for each trained token of a batch, row after row, and these tokens.

    The first `shared` tokens must be the same in all rows; they are read once, and gradients of all
    rows flow through them. The rest is read row by row, without padding, which must be at the end.
    """
    ids, labels = inputs["input_ids"], inputs["labels"]
    beginning = None
    if shared:
        cache = model(input_ids=ids[:1, :shared], use_cache=True, logits_to_keep=1).past_key_values
        beginning = [(layer.keys, layer.values) for layer in cache.layers]
    logits, targets = [], []
    for row, length in enumerate(inputs["attention_mask"].sum(dim=1).tolist()):
        places = (labels[row, 1:length] != IGNORED).nonzero().squeeze(1)
        if len(places):
            with _only_at(places - shared, model.get_output_embeddings()):
                output = model(
                    input_ids=ids[row : row + 1, shared:length],
                    past_key_values=DynamicCache(beginning) if beginning else None,
                    use_cache=beginning is not None,
                )
            logits.append(output.logits[0].float())
            targets.append(labels[row, places + 1])
    return torch.cat(logits), torch.cat(targets)


def _only_at(places: Any, head: Any) -> Any:
    """Within this context the head computes these positions only."""
    return head.register_forward_pre_hook(lambda _, given: (given[0][:, places], *given[1:]))


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


class RewardTrainer(GRPOTrainer):  # type: ignore[misc]
    """Marks control tokens in messages. Drops groups whose rewards are all equal, and counts them
    as `episodes/groups_dropped`.

    Their advantages are zero, but TRL divides the loss by their tokens too, and holds them to the
    reference model.
    """

    @cached_property
    def _control_tokens(self) -> ControlTokens:
        tokenizer = self.processing_class
        return ControlTokens(tokenizer, str(tokenizer.chat_template or ""))

    def _tokenize_prompts(self, prompts: list[Any]) -> Any:
        # A session that is open beforehand is told of in the last message.
        marked = [
            each if isinstance(each, str) else list(map(self._control_tokens.marked, each))
            for each in prompts
        ]
        return super()._tokenize_prompts(marked)

    def _get_tool_suffix_ids(self, tool_messages: list[dict[str, Any]]) -> Any:
        return super()._get_tool_suffix_ids(list(map(self._control_tokens.marked, tool_messages)))

    def _calculate_rewards(self, *arguments: Any) -> Any:
        rewards = super()._calculate_rewards(*arguments)
        parts = rewards * self.reward_weights.to(rewards.device)
        groups = parts.view(-1, self.num_generations, len(self.reward_funcs))
        # A failed episode has no rewards.
        highest = groups.nan_to_num(nan=-torch.inf).amax(dim=1)
        lowest = groups.nan_to_num(nan=torch.inf).amin(dim=1)
        self._differ = (highest > lowest).any(dim=1)
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        # A group's episodes may be in several processes.
        kept = self._differ.repeat_interleave(self.num_generations)
        kept = kept[self.accelerator.process_index * len(inputs) :][: len(inputs)]
        mask = batch["completion_mask"] * batch.get("tool_mask", 1) * kept[:, None]
        batch["tool_mask"] = mask
        batch["num_items_in_batch"] = self.accelerator.gather(mask.sum()).sum()
        self._metrics["train"]["episodes/groups_dropped"].append(float((~self._differ).sum()))
        return batch
