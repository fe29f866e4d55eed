"""Makes the demo's base policy from demonstrations: tokenizer, then a small Qwen3 model from random weights.

    python -m longhaul_trainer.make_base --clean clean.jsonl --noisy noisy.jsonl --out DIRECTORY --card card.json

Two stages, both counted in steps so that the result can be made again: the clean stage builds the skill (searching,
copying, changing one operator), the noisy tail then only changes how often the right branch is taken. That is what
rejection fine-tuning and RL can bring back, so the tail sets the base's pass rate and the clean stage the ceiling.
Never run by the demo or the tests.

Demonstrations are JSON Lines `{"segments": [{"text", "isAction"}]}`; segments are tokenised one by one, as prompts and
deltas are in a run. Loss: cross-entropy, weight 1 on actions (end of turn included), CONTEXT_WEIGHT on the rest.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tokenizers
import torch
import transformers
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import Qwen3Config, Qwen3ForCausalLM

from longhaul_trainer.directory import seal
from longhaul_trainer.make_base_tokenizer import TURN_END, train_tokenizer

VOCABULARY = 2_048
TOKENIZER_TEXTS = 4_000
CONTEXT_WEIGHT = 0.1
"""Copying inside observations is free practice for the copying that actions need."""
POOL_BATCHES = 8
"""Batches whose episodes are sorted by length together: little padding, still mixed."""
LOG_EVERY = 50


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One run of the optimizer: linear warm-up to `peak_lr`, then cosine down to `end_lr`."""

    name: str
    steps: int
    batch_episodes: int
    peak_lr: float
    end_lr: float
    warmup_steps: int
    seed: int

    def lr(self, step: int) -> float:
        if step < self.warmup_steps:
            return self.peak_lr * (step + 1) / self.warmup_steps
        done = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return self.end_lr + (self.peak_lr - self.end_lr) * 0.5 * (1 + math.cos(math.pi * done))


@dataclass(frozen=True)
class Row:
    """One episode: ids [T] and the loss weight of each id as a label [T]."""

    ids: list[int]
    weights: list[float]


def read_rows(path: Path, tokenizer: Tokenizer) -> list[Row]:
    rows = []
    for segments in _read_segments(path):
        ids: list[int] = []
        weights: list[float] = []
        for segment in segments:
            piece = tokenizer.encode(segment["text"], add_special_tokens=False).ids
            ids += piece
            weights += [1.0 if segment["isAction"] else CONTEXT_WEIGHT] * len(piece)
        rows.append(Row(ids, weights))
    return rows


def batches(rows: list[Row], *, size: int, seed: int) -> Iterator[list[Row]]:
    """Endless epochs. Each is shuffled, cut into pools, and a pool's batches hold episodes of similar length."""
    generator = random.Random(seed)
    while True:
        order = generator.sample(rows, len(rows))
        for start in range(0, len(order) - size + 1, size * POOL_BATCHES):
            pool = sorted(order[start : start + size * POOL_BATCHES], key=lambda row: len(row.ids))
            cut = [pool[first : first + size] for first in range(0, len(pool) - size + 1, size)]
            generator.shuffle(cut)
            yield from cut


def batch_loss(model: Qwen3ForCausalLM, rows: list[Row]) -> torch.Tensor:
    """Weighted mean cross-entropy of the labels. Right padding: causal attention never looks at it."""
    width = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    weights = torch.zeros(len(rows), width)
    for index, row in enumerate(rows):
        ids[index, : len(row.ids)] = torch.tensor(row.ids)
        weights[index, : len(row.ids)] = torch.tensor(row.weights)
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
    losses = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    label_weights = weights[:, 1:].flatten()
    return (losses * label_weights).sum() / label_weights.sum()


def train(model: Qwen3ForCausalLM, rows: list[Row], stage: Stage) -> dict[str, Any]:
    """Runs the stage in place. Returns its facts for the card."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=stage.peak_lr, betas=(0.9, 0.98), weight_decay=0.01)
    source = batches(rows, size=stage.batch_episodes, seed=stage.seed)
    model.train()
    started = time.monotonic()
    recent: list[float] = []
    tokens = 0
    for step in range(stage.steps):
        for group in optimizer.param_groups:
            group["lr"] = stage.lr(step)
        batch = next(source)
        tokens += sum(len(row.ids) for row in batch)
        loss = batch_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        recent.append(loss.item())
        if (step + 1) % LOG_EVERY == 0 or step + 1 == stage.steps:
            rate = tokens / (time.monotonic() - started)
            mean = sum(recent) / len(recent)
            print(f"{stage.name} step {step + 1}/{stage.steps} loss {mean:.4f}, {rate:.0f} tokens/s", flush=True)
            recent = recent[-1:] if step + 1 == stage.steps else []
    model.eval()
    return {
        **asdict(stage),
        "demonstrations": len(rows),
        "tokens": tokens,
        "seconds": round(time.monotonic() - started),
    }


def new_model(tokenizer: Tokenizer, *, seed: int) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=128,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            intermediate_size=384,
            max_position_embeddings=2_048,
            tie_word_embeddings=True,
            rope_theta=10_000.0,
            bos_token_id=None,
            eos_token_id=tokenizer.token_to_id(TURN_END),
            # No pad id: transformers would drop that embedding's gradient, though the policy may sample the token.
            pad_token_id=None,
            attention_dropout=0.0,
        )
    )


def save(model: Qwen3ForCausalLM, tokenizer: Tokenizer, path: Path) -> None:
    """fp16 weights: half the size, and far finer than one optimizer step."""
    path.mkdir(parents=True, exist_ok=True)
    copy = Qwen3ForCausalLM(model.config)
    copy.load_state_dict(model.state_dict())
    copy.half().save_pretrained(path)
    # Defaults of a generation file would silently change how servers sample.
    (path / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save(str(path / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": TURN_END, "model_max_length": 2_048}
    (path / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")


def _read_segments(path: Path) -> Iterator[list[dict[str, Any]]]:
    with path.open() as file:
        for line in file:
            yield json.loads(line)["segments"]


def _texts(paths: list[Path], count: int) -> Iterator[str]:
    for path in paths:
        for index, segments in enumerate(_read_segments(path)):
            if index >= count // len(paths):
                break
            yield from (segment["text"] for segment in segments)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="longhaul_trainer.make_base", description=__doc__)
    parser.add_argument("--clean", type=Path, required=True, help="demonstrations almost without errors")
    parser.add_argument("--noisy", type=Path, required=True, help="demonstrations with errors at every decision")
    parser.add_argument("--out", type=Path, required=True, help="directory of the model; made sealed")
    parser.add_argument("--card", type=Path, required=True, help="where to write what was done (JSON)")
    parser.add_argument("--keep-clean", type=Path, help="also save the model between the stages here")
    parser.add_argument("--from-clean", type=Path, help="start the tail from a model saved by --keep-clean")
    parser.add_argument("--clean-steps", type=int, default=2_240)
    parser.add_argument("--noisy-steps", type=int, default=180)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    return parser


def main() -> int:
    arguments = build_parser().parse_args()
    torch.set_num_threads(arguments.threads)
    clean = Stage(
        name="clean",
        steps=arguments.clean_steps,
        batch_episodes=16,
        peak_lr=2.5e-3,
        end_lr=2.5e-4,
        warmup_steps=100,
        seed=arguments.seed,
    )
    noisy = Stage(
        name="noisy",
        steps=arguments.noisy_steps,
        batch_episodes=16,
        peak_lr=5e-4,
        end_lr=3e-4,
        warmup_steps=min(100, arguments.noisy_steps // 2),
        seed=arguments.seed + 1,
    )
    facts = []
    if arguments.from_clean is None:
        tokenizer = train_tokenizer(_texts([arguments.clean, arguments.noisy], TOKENIZER_TEXTS), vocab_size=VOCABULARY)
        model = new_model(tokenizer, seed=arguments.seed)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        print(f"{parameters} parameters, {tokenizer.get_vocab_size()} tokens", flush=True)
        facts.append(train(model, read_rows(arguments.clean, tokenizer), clean))
        if arguments.keep_clean is not None:
            save(model, tokenizer, arguments.keep_clean)
            seal(arguments.keep_clean, kind="policy", facts={})
    else:
        tokenizer = Tokenizer.from_file(str(arguments.from_clean / "tokenizer.json"))
        model = Qwen3ForCausalLM.from_pretrained(arguments.from_clean, dtype=torch.float32)
    facts.append(train(model, read_rows(arguments.noisy, tokenizer), noisy))

    save(model, tokenizer, arguments.out)
    versions = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
    }
    card = {
        "schema": "longhaul.base/1",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "vocabulary": tokenizer.get_vocab_size(),
        "seed": arguments.seed,
        "stages": facts,
        "versions": versions,
    }
    arguments.card.write_text(json.dumps(card, indent=1) + "\n")
    print(seal(arguments.out, kind="policy", facts={}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
