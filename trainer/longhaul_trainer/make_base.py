"""Makes the demo's base policy from demonstrations: first a tokenizer, then a small Qwen3 model from random weights.

    python -m longhaul_trainer.make_base --clean clean.jsonl --noisy noisy.jsonl \\
        --clean-model DIRECTORY --out DIRECTORY --card card.json

There are two stages, both counted in steps so that the result is reproducible. The clean stage builds the skills: searching,
copying, changing one operator. The noisy stage then only changes how often the model takes the right branch, which rejection
fine-tuning and RL can restore. So the noisy stage sets the base's pass rate, and the clean stage sets the ceiling. Neither the
demo nor the tests run this module.

Demonstrations are JSON Lines `{"segments": [{"text", "isAction"}]}`. Segments are tokenised one by one, like prompts and deltas
in a run. The loss is cross-entropy with weight 1 on actions (end of turn included) and CONTEXT_WEIGHT on the rest.

The clean stage uses Muon for the matrices. Every other skill depends on copying a name from the issue; with Muon the model learns
that in about 350 steps, with AdamW alone in about 1,000.
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
from itertools import chain, islice
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import tokenizers
import torch
import transformers
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.utils.logging import disable_progress_bar

from longhaul_trainer.directory import COMMITTED, seal
from longhaul_trainer.make_base_tokenizer import TURN_END, train_tokenizer

disable_progress_bar()

VOCABULARY = 2_048
TOKENIZER_CLEAN, TOKENIZER_NOISY = 2_000, 400
"""Demonstrations whose texts train the tokenizer."""
CONTEXT_WEIGHT = 0.1
"""Copying inside observations is practice for the copying that actions need."""
POOL_BATCHES = 8
"""Number of batches whose episodes are sorted by length together: little padding, still mixed."""
UNSEEN = 128
"""Demonstrations of each file that are held out of training to measure progress."""
WEIGHT_DECAY = 0.01
LOG_EVERY = 50
STAGE_FACTS = "stage.json"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One training stage: linear warm-up to the peak rates, then cosine decay to `end_share` of them."""

    name: str
    steps: int
    batch_episodes: int
    adamw_lr: float
    muon_lr: float | None
    """Muon's rate for all matrices but the embedding; None: AdamW trains them too."""
    end_share: float
    warmup_steps: int
    seed: int

    def rate(self, step: int) -> float:
        """Share of the peak rates at a step counted from 0."""
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        done = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return self.end_share + (1 - self.end_share) * 0.5 * (1 + math.cos(math.pi * done))


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
    """Endless epochs. Each epoch is shuffled and cut into pools; the batches of a pool hold episodes of similar length."""
    generator = random.Random(seed)
    while True:
        order = generator.sample(rows, len(rows))
        for start in range(0, len(order) - size + 1, size * POOL_BATCHES):
            pool = sorted(order[start : start + size * POOL_BATCHES], key=lambda row: len(row.ids))
            cut = [pool[first : first + size] for first in range(0, len(pool) - size + 1, size)]
            generator.shuffle(cut)
            yield from cut


def batch_loss(model: Qwen3ForCausalLM, rows: list[Row]) -> torch.Tensor:
    """Weighted mean cross-entropy of the labels."""
    ids, weights = padded(rows)
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
    losses = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    label_weights = weights[:, 1:].flatten()
    return (losses * label_weights).sum() / label_weights.sum()


def train(model: Qwen3ForCausalLM, rows: list[Row], stage: Stage) -> dict[str, Any]:
    """Runs the stage in place. Returns its facts for the card."""
    optimizers = make_optimizers(model, stage)
    schedulers = [torch.optim.lr_scheduler.LambdaLR(optimizer, stage.rate) for optimizer in optimizers]
    unseen, seen = rows[:UNSEEN], rows[UNSEEN:]
    source = batches(seen, size=stage.batch_episodes, seed=stage.seed)
    model.train()
    started = time.monotonic()
    recent: list[float] = []
    tokens = 0
    for step in range(stage.steps):
        batch = next(source)
        tokens += sum(len(row.ids) for row in batch)
        loss = batch_loss(model, batch)
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
            optimizer.step()
            scheduler.step()
        recent.append(loss.item())
        if (step + 1) % LOG_EVERY == 0 or step + 1 == stage.steps:
            rate = tokens / (time.monotonic() - started)
            mean = sum(recent) / len(recent)
            print(f"{stage.name} step {step + 1}/{stage.steps} loss {mean:.4f}, {rate:.0f} tokens/s", flush=True)
            recent = recent[-1:] if step + 1 == stage.steps else []
    model.eval()
    reproduced = share_reproduced(model, unseen)
    print(f"{stage.name}: {reproduced:.3f} of {len(unseen)} unseen demonstrations reproduced", flush=True)
    return {
        **asdict(stage),
        "demonstrations": len(seen),
        "unseen_reproduced": round(reproduced, 3),
        "tokens": tokens,
        "seconds": round(time.monotonic() - started),
    }


def make_optimizers(model: Qwen3ForCausalLM, stage: Stage) -> list[torch.optim.Optimizer]:
    def is_matrix(name: str, parameter: torch.nn.Parameter) -> bool:
        return stage.muon_lr is not None and parameter.ndim == 2 and "embed" not in name

    named = list(model.named_parameters())
    matrices = [parameter for name, parameter in named if is_matrix(name, parameter)]
    others = [parameter for name, parameter in named if not is_matrix(name, parameter)]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(others, lr=stage.adamw_lr, betas=(0.9, 0.98), weight_decay=WEIGHT_DECAY)
    ]
    if stage.muon_lr is not None:
        optimizers.append(torch.optim.Muon(matrices, lr=stage.muon_lr, momentum=0.95, weight_decay=WEIGHT_DECAY))
    return optimizers


@torch.no_grad()
def share_reproduced(model: Qwen3ForCausalLM, rows: list[Row]) -> float:
    """Share of unseen demonstrations in which the model ranks every action token first."""
    whole = 0
    for start in range(0, len(rows), 32):
        ids, weights = padded(rows[start : start + 32])
        most_likely = model(input_ids=ids, use_cache=False).logits[:, :-1].argmax(-1)
        is_right = (most_likely == ids[:, 1:]) | (weights[:, 1:] < 1.0)
        whole += int(is_right.all(dim=1).sum())
    return whole / len(rows)


def padded(rows: list[Row]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns ids and weights, [B, T] each, padded on the right, where causal attention never looks."""
    width = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    weights = torch.zeros(len(rows), width)
    for index, row in enumerate(rows):
        ids[index, : len(row.ids)] = torch.tensor(row.ids)
        weights[index, : len(row.ids)] = torch.tensor(row.weights)
    return ids, weights


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
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
            bos_token_id=None,
            eos_token_id=tokenizer.token_to_id(TURN_END),
            # No pad id: transformers would drop that embedding's gradient, although the policy may sample the token.
            pad_token_id=None,
            attention_dropout=0.0,
        )
    )


def save(model: Qwen3ForCausalLM, tokenizer: Tokenizer, path: Path) -> None:
    """Saves fp16 weights: half the size, and the rounding is far smaller than one optimizer step."""
    path.mkdir(parents=True, exist_ok=True)
    copy = Qwen3ForCausalLM(model.config)
    copy.load_state_dict(model.state_dict())
    copy.half().save_pretrained(path)
    (path / "model.safetensors").chmod(0o644)
    # Servers would silently sample with the defaults of a generation file.
    (path / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save(str(path / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": TURN_END, "model_max_length": 2_048}
    (path / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")


def _read_segments(path: Path) -> Iterator[list[dict[str, Any]]]:
    with path.open() as file:
        for line in file:
            yield json.loads(line)["segments"]


def _texts(path: Path, count: int) -> Iterator[str]:
    for segments in islice(_read_segments(path), count):
        yield from (segment["text"] for segment in segments)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="longhaul_trainer.make_base", description=__doc__)
    parser.add_argument("--clean", type=Path, required=True, help="demonstrations almost without errors")
    parser.add_argument("--noisy", type=Path, required=True, help="demonstrations with errors at every decision")
    parser.add_argument("--out", type=Path, required=True, help="directory of the model; made sealed")
    parser.add_argument("--card", type=Path, required=True, help="where to write what was done (JSON)")
    parser.add_argument(
        "--clean-model", type=Path, required=True, help="model between the stages: made, or used when it is there"
    )
    parser.add_argument("--clean-steps", type=int, default=1_400)
    parser.add_argument("--noisy-steps", type=int, default=180)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    return parser


def make_clean_model(path: Path, *, clean: Path, noisy: Path, stage: Stage) -> None:
    """Runs the clean stage from random weights. Writes its facts into the directory and seals it last."""
    texts = chain(_texts(clean, TOKENIZER_CLEAN), _texts(noisy, TOKENIZER_NOISY))
    tokenizer = train_tokenizer(texts, vocab_size=VOCABULARY)
    model = new_model(tokenizer, seed=stage.seed)
    facts = train(model, read_rows(clean, tokenizer), stage)
    save(model, tokenizer, path)
    (path / STAGE_FACTS).write_text(json.dumps(facts, indent=1) + "\n")
    seal(path, kind="policy", facts={})


def main() -> int:
    arguments = build_parser().parse_args()
    torch.set_num_threads(arguments.threads)
    clean_stage = Stage(
        name="clean",
        steps=arguments.clean_steps,
        batch_episodes=16,
        adamw_lr=2.5e-3,
        muon_lr=0.02,
        end_share=0.1,
        warmup_steps=50,
        seed=arguments.seed,
    )
    noisy_stage = Stage(
        name="noisy",
        steps=arguments.noisy_steps,
        batch_episodes=16,
        adamw_lr=5e-4,
        muon_lr=None,
        end_share=0.6,
        warmup_steps=min(100, arguments.noisy_steps // 2),
        seed=arguments.seed + 1,
    )
    if not (arguments.clean_model / COMMITTED).exists():
        make_clean_model(arguments.clean_model, clean=arguments.clean, noisy=arguments.noisy, stage=clean_stage)
    tokenizer = Tokenizer.from_file(str(arguments.clean_model / "tokenizer.json"))
    model = Qwen3ForCausalLM.from_pretrained(arguments.clean_model, dtype=torch.float32)
    noisy_facts = train(model, read_rows(arguments.noisy, tokenizer), noisy_stage)
    save(model, tokenizer, arguments.out)

    card = {
        "schema": "longhaul.base/1",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "vocabulary": tokenizer.get_vocab_size(),
        "seed": arguments.seed,
        "stages": [json.loads((arguments.clean_model / STAGE_FACTS).read_text()), noisy_facts],
        "versions": {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
        },
    }
    arguments.card.write_text(json.dumps(card, indent=1) + "\n")
    print(seal(arguments.out, kind="policy", facts={}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
