"""Two tiny policies that differ like two successive versions: the second is the first with a little noise on every weight."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tiny_policy import write_tiny_policy

from longhaul_trainer.directory import seal
from longhaul_trainer.parallel.ranks import Ranks
from longhaul_trainer.rope import Yarn
from longhaul_trainer.step.window import prepare_window
from longhaul_trainer.trainable import ModelOptions, make_scorer
from longhaul_trainer.weight_files import hugging_face_weights

# Small, so that the window's row is three times as long as the native window.
YARN = Yarn(factor=4.0, original_max=128)


def write_pair(root: Path, *, seed: int, step: float, family: str = "qwen3", hidden: int = 64) -> list[str]:
    """Writes the policies `older` and `newer`, which state a rope, below root, and `window.safetensors` of the newer one.

    Returns the hashes of their manifests. step: noise relative to each tensor's standard deviation.
    """
    older, newer = root / "older", root / "newer"
    hashes = [write_tiny_policy(older, seed=seed, family=family, hidden=hidden, rope=YARN)]
    newer.mkdir()
    for file in older.iterdir():
        if file.suffix != ".safetensors" and file.name not in ("MANIFEST.json", "COMMITTED"):
            shutil.copyfile(file, newer / file.name)
    noise = torch.Generator().manual_seed(1_000 + seed)
    tensors = load_file(older / "model.safetensors")
    for name, tensor in tensors.items():
        # Norms are all ones and have no deviation.
        spread = float(tensor.std()) if tensor.ndim > 1 else 0.1
        tensors[name] = tensor + step * spread * torch.randn(tensor.shape, generator=noise)
    save_file(tensors, newer / "model.safetensors", metadata={"format": "pt"})
    hashes.append(seal(newer, kind="policy", facts={}))
    ranks = Ranks(device=torch.device("cpu"))
    scorer = make_scorer(newer, hugging_face_weights(newer), ModelOptions(ranks=ranks))
    prepare_window(scorer, YARN, newer, max_tokens=512, ranks=ranks)(root)
    return hashes
