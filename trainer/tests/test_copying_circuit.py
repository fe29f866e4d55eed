"""The initial weights of the repair policy copy names before any training."""

from __future__ import annotations

import pytest
import torch

from longhaul_trainer.copying_circuit import Shape, new_model
from longhaul_trainer.make_repair_base import move_together

VOCABULARY = 500
SHAPE = Shape(hidden=160, layers=2, heads=4, mlp=32)


def test_heads_find_the_token_after_an_earlier_occurrence_of_one_or_two_tokens() -> None:
    model = new_model(VOCABULARY, 2, SHAPE, context=4_096, seed=0)
    model.set_attn_implementation("eager")
    generator = torch.Generator().manual_seed(1)
    names = torch.randperm(VOCABULARY - 1, generator=generator)[:400].view(200, 2) + 1
    # The same mark separates the two parts of every name, so only the last two tokens determine what follows it.
    mark = torch.zeros(200, 1, dtype=torch.long)
    first = torch.cat([names[:, :1], mark, names[:, 1:]], dim=1)
    again = first[torch.randperm(200, generator=generator)]
    ids = torch.cat([first, again]).flatten()
    with torch.no_grad():
        found = model(input_ids=ids[None], output_attentions=True).attentions[1][0].argmax(-1)

    behind_first, behind_mark = (torch.arange(600 + offset, 1_200, 3) for offset in (0, 1))
    one, two = found[0, behind_first], found[2, behind_mark]
    assert (ids[one - 1] == ids[behind_first]).float().mean() > 0.99
    is_name = (ids[two - 1] == 0) & (ids[two - 2] == ids[behind_mark - 1])
    # Weaker, because only 16 of 32 dimensions distinguish names that share the mark.
    assert is_name.float().mean() > 0.7


def test_a_shape_without_room_for_the_circuit_is_refused() -> None:
    for wrong in ({"layers": 1}, {"heads": 3}, {"hidden": 90, "heads": 8}):
        with pytest.raises(ValueError, match="Expected 2 layers"):
            Shape(**({"hidden": 160, "layers": 2, "heads": 4, "mlp": 32} | wrong))


def test_rows_that_are_updated_together_keep_their_differences() -> None:
    embeddings = torch.nn.Parameter(torch.randn(6, 4, generator=torch.Generator().manual_seed(0)))
    before = embeddings.detach().clone()
    together = torch.tensor([1, 3, 4])
    optimizer = torch.optim.AdamW([embeddings], lr=0.1, weight_decay=0.0)
    for step in range(3):
        optimizer.zero_grad()
        (embeddings * torch.randn(6, 4, generator=torch.Generator().manual_seed(step))).sum().backward()
        move_together(embeddings, together)
        optimizer.step()
    moved = (embeddings.detach() - before)[together]
    assert torch.allclose(moved, moved[:1].expand_as(moved), atol=1e-6)
    assert moved.abs().min() > 0.01
    assert not torch.allclose((embeddings.detach() - before)[0], moved[0], atol=1e-3)
