"""Makes the base policy of `recipes/repair.yaml` from demonstrations: first a tokenizer, then a Qwen3 model from random weights.

    python -m longhaul_trainer.make_repair_base --work DIRECTORY --out DIRECTORY --card card.json

The work directory holds `train.jsonl` and `heldout.jsonl` (demonstrations), `fixed.json` (texts that are one token each) and
`roots.json` (roots of training names); `policies/repair-base/make-base.ts` writes them.

Every random draw depends on seed and step only, so a killed run that continues from its checkpoint gives the same result.
Progress lines report loss, tokens/s and the remaining time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tokenizers
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save as to_bytes
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import Qwen3ForCausalLM

from longhaul_trainer.copying_circuit import Shape, new_model
from longhaul_trainer.directory import COMMITTED, seal, write_durably
from longhaul_trainer.make_base import Stage, make_optimizers
from longhaul_trainer.repair_texts import (
    ROOTS,
    SPECIAL,
    TURN_END,
    Demonstration,
    Row,
    copies,
    read_demonstrations,
    renamed,
    to_row,
    train_tokenizer,
)

VOCABULARY = 8_192
CONTEXT = 4_096
LISTS = ((2, 24), (2, 4))
"""Ranges of the number of names and of the number of lists."""
COPIED_NAMES = 160
"""Names in a step that practises copying, with five tokens each."""
POOL_BATCHES = 8
"""Number of batches whose episodes are sorted by length together: little padding, still mixed."""
LOG_SECONDS = 20
CHECKPOINT = "checkpoint.safetensors"

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def padded(rows: list[Row]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns ids and weights, [B, T] each, padded on the right, where causal attention never looks."""
    width = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    weights = torch.zeros(len(rows), width)
    for index, row in enumerate(rows):
        ids[index, : len(row.ids)] = torch.tensor(row.ids)
        weights[index, : len(row.ids)] = torch.tensor(row.weights)
    return ids, weights


class Batches:
    """The batch of each step, a function of seed and step only.

    The first `copying` steps have lists of names to copy. Later steps have demonstrations by epoch and pool, each with fresh stems,
    and one list to copy if `copying` is above 0.
    """

    def __init__(
        self,
        demonstrations: list[Demonstration],
        roots: list[str],
        tokenizer: Tokenizer,
        *,
        size: int,
        seed: int,
        copying: int = 0,
    ):
        self.copying = copying
        self.demonstrations, self.roots, self.tokenizer = demonstrations, roots, tokenizer
        self.size, self.seed = size, seed
        self.lengths = [sum(len(part.text) for part in one.segments) for one in demonstrations]
        self.per_epoch = len(demonstrations) // size
        if self.per_epoch == 0:
            raise ValueError(f"Expected at least {size} demonstrations for one batch, got {len(demonstrations)}")
        self.epoch, self.order = -1, [[0]]

    def at(self, step: int) -> list[Row]:
        if step < self.copying:
            return self._copies(step)
        epoch, position = divmod(step - self.copying, self.per_epoch)
        if epoch != self.epoch:
            self.epoch, self.order = epoch, self._epoch(epoch)
        generator = random.Random(f"{self.seed}/names/{step}")
        rows = [
            to_row(renamed(self.demonstrations[i], self.roots, generator), self.tokenizer) for i in self.order[position]
        ]
        return rows + self._copies(step, count=1) if self.copying > 0 else rows

    def _copies(self, step: int, count: int | None = None) -> list[Row]:
        generator = random.Random(f"{self.seed}/copies/{step}")
        names, lists = (generator.randint(*limits) for limits in LISTS)
        count = count or max(2, COPIED_NAMES // (names * lists))
        return [copies(self.roots, generator, self.tokenizer, names=names, lists=lists) for _ in range(count)]

    def _epoch(self, epoch: int) -> list[list[int]]:
        generator = random.Random(f"{self.seed}/order/{epoch}")
        order = generator.sample(range(len(self.demonstrations)), self.per_epoch * self.size)
        batches: list[list[int]] = []
        for start in range(0, len(order), self.size * POOL_BATCHES):
            pool = sorted(order[start : start + self.size * POOL_BATCHES], key=lambda index: self.lengths[index])
            batches += [pool[first : first + self.size] for first in range(0, len(pool), self.size)]
        generator.shuffle(batches)
        return batches


def loss_of(model: Qwen3ForCausalLM, rows: list[Row]) -> torch.Tensor:
    """Summed weighted cross-entropy of the labels."""
    ids, weights = padded(rows)
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
    losses = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    return (losses * weights[:, 1:].flatten()).sum()


@torch.no_grad()
def evaluate(model: Qwen3ForCausalLM, rows: list[Row]) -> dict[str, float]:
    """Teacher-forced accuracy of the model's most likely tokens on the solver's actions, as shares.

    `tokens`; whole `turns`; `arguments` of commands (the solver picks its commands at random, so the command itself may differ);
    `episodes` with all arguments right.
    """
    model.eval()
    counts = {"tokens": 0, "turns": 0, "arguments": 0, "episodes": 0}
    totals = {"tokens": 0, "turns": 0, "arguments": 0, "episodes": len(rows)}
    for row in rows:
        ids = torch.tensor(row.ids)
        likely = model(input_ids=ids[None], use_cache=False).logits[0, :-1].argmax(-1)
        right = torch.cat([torch.tensor([True]), likely == ids[1:]])
        whole = True
        for begin, argument, end in row.turns:
            has_arguments = bool(right[argument:end].all())
            whole = whole and has_arguments
            counts["tokens"] += int(right[begin:end].sum())
            totals["tokens"] += end - begin
            counts["turns"] += bool(right[begin:end].all())
            counts["arguments"] += has_arguments
            totals["turns"] += 1
            totals["arguments"] += 1
        counts["episodes"] += whole
    model.train()
    return {name: round(counts[name] / max(1, totals[name]), 4) for name in counts}


@dataclass(frozen=True, kw_only=True)
class Done:
    """Progress that a checkpoint records."""

    step: int
    tokens: int
    seconds: float
    curve: list[dict[str, float]]


def write_checkpoint(
    path: Path, model: Qwen3ForCausalLM, optimizers: list[torch.optim.Optimizer], identity: dict[str, Any], done: Done
) -> None:
    """Writes one file, replaced atomically."""
    tensors = {f"model.{name}": parameter.detach().contiguous() for name, parameter in model.named_parameters()}
    for index, optimizer in enumerate(optimizers):
        for parameter, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{parameter}.{name}": value for name, value in state.items()}
    metadata = {"identity": json.dumps(identity), "done": json.dumps(asdict(done))}
    write_durably(path, to_bytes(tensors, metadata=metadata))


def read_checkpoint(
    path: Path, model: Qwen3ForCausalLM, optimizers: list[torch.optim.Optimizer], identity: dict[str, Any]
) -> Done | None:
    """Loads weights and optimizer states in place. None: there is no checkpoint. Raises SystemExit for one of other settings."""
    if not path.exists():
        return None
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        if json.loads(metadata["identity"]) != identity:
            raise SystemExit(
                f"Expected the checkpoint of these settings in {path}, found another's: remove it or choose another --work"
            )
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
    for index, optimizer in enumerate(optimizers):
        states: dict[int, dict[str, torch.Tensor]] = {}
        prefix = f"optimizer.{index}."
        for name, tensor in tensors.items():
            if name.startswith(prefix):
                parameter, key = name.removeprefix(prefix).split(".", 1)
                states.setdefault(int(parameter), {})[key] = tensor
        optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
    return Done(**json.loads(metadata["done"]))


def say(text: str) -> None:
    print(text, flush=True)


def move_together(embeddings: torch.Tensor, tokens: torch.Tensor) -> None:
    """Replaces the gradients of these embedding rows by their mean.

    The differences between the rows stay as initialised, so the model copies roots that no batch contained like the others. With
    separate gradients it copied known roots without a mistake and others never.
    """
    gradient = embeddings.grad
    assert gradient is not None
    gradient[tokens] = gradient[tokens].mean(0)


def train(
    model: Qwen3ForCausalLM,
    batches: Batches,
    held_out: list[Row],
    stage: Stage,
    *,
    work: Path,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Runs or continues the stage in place. Returns its facts for the card."""
    optimizers = make_optimizers(model, stage)
    peaks = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    path = work / CHECKPOINT
    identity = {
        **asdict(stage),
        "parameters": [list(one.shape) for one in model.parameters()],
        "demonstrations": len(batches.demonstrations),
        "copying": batches.copying,
    }
    done = read_checkpoint(path, model, optimizers, identity) or Done(step=0, tokens=0, seconds=0.0, curve=[])
    step, tokens, seconds, curve = done.step, done.tokens, done.seconds, done.curve
    if step > 0:
        say(f"continuing at step {step} of {stage.steps}")

    def checkpoint() -> None:
        write_checkpoint(
            path, model, optimizers, identity, Done(step=step, tokens=tokens, seconds=seconds, curve=curve)
        )

    roots = torch.tensor([batches.tokenizer.token_to_id(root) for root in ROOTS])
    model.train()
    since_log, since_save, mark = time.monotonic(), time.monotonic(), time.monotonic()
    recent: list[float] = []
    fresh = 0
    while step < stage.steps:
        rows = batches.at(step)
        weight = sum(sum(row.weights[1:]) for row in rows)
        model.zero_grad()
        total = 0.0
        micro = options.micro if step >= batches.copying else len(rows)
        for first in range(0, len(rows), micro):
            part = loss_of(model, rows[first : first + micro]) / weight
            part.backward()
            total += part.item()
        move_together(model.model.embed_tokens.weight, roots)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, rates in zip(optimizers, peaks, strict=True):
            for group, peak in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = peak * stage.rate(step)
            optimizer.step()
        step += 1
        count = sum(len(row.ids) for row in rows)
        tokens, fresh = tokens + count, fresh + count
        now = time.monotonic()
        seconds, mark = seconds + now - mark, now
        recent.append(total)
        is_last = step == stage.steps or step == options.stop_after
        if now - since_log >= LOG_SECONDS or is_last:
            rate = fresh / max(1e-9, now - since_log)
            left = (stage.steps - step) * seconds / step / 60
            say(
                f"step {step}/{stage.steps} loss {sum(recent) / len(recent):.4f}, {rate:.0f} tokens/s, {left:.0f} min left"
            )
            recent, fresh, since_log = [], 0, now
        if step % options.evaluate_every == 0 or is_last:
            scores = evaluate(model, held_out)
            curve.append({"step": step, "tokens": tokens, "loss": round(total, 4), **scores})
            say(f"step {step} held-out {scores}")
        if now - since_save >= 60 * options.checkpoint_minutes or is_last:
            checkpoint()
            since_save = now
        if step == options.stop_after:
            break
    return {**asdict(stage), "steps_done": step, "tokens": tokens, "seconds": round(seconds), "curve": curve}


def save(model: Qwen3ForCausalLM, tokenizer: Tokenizer, path: Path) -> None:
    """Saves bf16 weights, the usual dtype of published policies."""
    path.mkdir(parents=True, exist_ok=True)
    copy = Qwen3ForCausalLM(model.config)
    copy.load_state_dict(model.state_dict())
    copy.bfloat16().save_pretrained(path)
    (path / "model.safetensors").chmod(0o644)
    # Servers would silently sample with the defaults of a generation file.
    (path / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save(str(path / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": TURN_END,
        "pad_token": SPECIAL[0],
        "model_max_length": CONTEXT,
        "chat_template": CHATML,
    }
    (path / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")


def tokenizer_of(work: Path, demonstrations: list[Demonstration]) -> Tokenizer:
    path = work / "tokenizer.json"
    if not path.exists():
        fixed = json.loads((work / "fixed.json").read_text())
        documents = [[segment.text for segment in one.segments] for one in demonstrations]
        train_tokenizer(documents, fixed, vocab_size=VOCABULARY).save(str(path))
    return Tokenizer.from_file(str(path))


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="longhaul_trainer.make_repair_base", description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="demonstrations, tokenizer and checkpoint")
    parser.add_argument("--out", type=Path, required=True, help="directory of the model; made sealed")
    parser.add_argument("--card", type=Path, required=True, help="where to write what was done (JSON)")
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--copying", type=int, default=60, help="the first of these steps practise copying names")
    parser.add_argument("--batch", type=int, default=4, help="episodes a step")
    parser.add_argument("--micro", type=int, default=4, help="episodes at once: memory, not mathematics")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--mlp", type=int, default=1_024)
    parser.add_argument("--lr", type=float, default=2e-3, help="of embedding and norms (AdamW)")
    parser.add_argument("--muon-lr", type=float, default=0.007, help="of the matrices (Muon)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--checkpoint-minutes", type=float, default=5)
    parser.add_argument("--evaluate-every", type=int, default=100, help="steps")
    parser.add_argument("--held-out", type=int, default=64, help="demonstrations of held-out names to look at")
    parser.add_argument(
        "--stop-after", type=int, default=0, help="end at this step with a checkpoint and no model; 0 = never"
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    demonstrations = read_demonstrations(options.work / "train.jsonl")
    tokenizer = tokenizer_of(options.work, demonstrations)
    rows = [to_row(one, tokenizer) for one in read_demonstrations(options.work / "heldout.jsonl")[: options.held_out]]
    shape = Shape(hidden=options.hidden, layers=options.layers, heads=options.heads, mlp=options.mlp)
    vocabulary = tokenizer.get_vocab_size()
    eos = tokenizer.token_to_id(TURN_END)
    assert eos is not None
    model = new_model(vocabulary, eos, shape, context=CONTEXT, seed=options.seed)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    longest = max(len(row.ids) for row in rows)
    say(
        f"{parameters} parameters, {vocabulary} tokens, {sum(len(row.ids) for row in rows) // len(rows)} an episode, longest {longest}"
    )
    stage = Stage(
        name="clean",
        steps=options.steps,
        batch_episodes=options.batch,
        adamw_lr=options.lr,
        muon_lr=options.muon_lr,
        end_share=0.05,
        warmup_steps=min(50, options.steps // 4 + 1),
        seed=options.seed,
    )
    roots = json.loads((options.work / "roots.json").read_text())
    batches = Batches(demonstrations, roots, tokenizer, size=options.batch, seed=options.seed, copying=options.copying)
    facts = train(model, batches, rows, stage, work=options.work, options=options)
    if facts["steps_done"] < options.steps:
        return 0
    save(model, tokenizer, options.out)
    rounded = Qwen3ForCausalLM.from_pretrained(options.out, dtype=torch.float32)
    card = {
        "schema": "longhaul.base/1",
        "parameters": parameters,
        "vocabulary": vocabulary,
        "seed": options.seed,
        "shape": asdict(shape),
        "stages": [facts],
        "held_out_as_shipped": evaluate(rounded, rows),
        "versions": {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
        },
    }
    options.card.write_text(json.dumps(card, indent=1) + "\n")
    (options.out / COMMITTED).unlink(missing_ok=True)
    say(seal(options.out, kind="policy", facts={}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
