"""docs/training.md and the recipes state the planner's figures: the example, the memory tables, and the checkpoint sizes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from job_files import TRAINER
from shipped_recipes import MODELS, layout_of, recipe_text, shape_of

from longhaul_trainer.attention import LONG_ROW
from longhaul_trainer.plan.command import plan
from longhaul_trainer.plan.memory import GIB, Layout, predict
from longhaul_trainer.plan.shapes import PUBLISHED, Shape

PAGE = (TRAINER.parent / "docs/training.md").read_text()
K32, K64, K128 = 32_768, 65_536, 131_072


def rows_of(heading: str) -> list[list[str]]:
    """Cells of the table that starts with `heading`."""
    lines = PAGE[PAGE.index(heading) :].split("\n\n")[0].splitlines()[2:]
    assert lines, heading
    return [[cell.strip().replace("**", "") for cell in line.strip("|").split("|")] for line in lines]


def numbers(cell: str) -> list[int]:
    return [int(found) for found in re.findall(r"\d+", cell)]


def test_the_example_equals_the_output_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    layout = Layout(tokens=K64, states="bfloat16")
    assert plan(model="qwen2.5-7b", layout=layout, memory_gib=139, as_json=False) == 0
    assert f"```\n{capsys.readouterr().out}```" in PAGE


def test_memory_of_a_7b_on_one_device_equals_the_planners() -> None:
    layouts = [
        {},
        {"states": "bfloat16"},
        {"states": "bfloat16", "offload": "both"},
        {"lora_rank": 16},
    ]
    found = rows_of("| what is trained |")
    assert len(found) == len(layouts)
    for cells, layout in zip(found, layouts, strict=True):
        both = [predict(PUBLISHED["qwen2.5-7b"], Layout(tokens=tokens, **layout)) for tokens in (K32, K64)]
        assert [numbers(cell)[0] for cell in cells[1:3]] == [round(memory.peak / GIB) for memory in both]
        # One figure if both contexts have the same.
        assert numbers(cells[3]) == sorted({round(memory.host / GIB) for memory in both})


def test_memory_of_clusters_equals_the_planners() -> None:
    shape: Shape | None = None
    ranks = 1
    seen = 0
    for name, at_64k, at_128k, checkpoint in rows_of("| model, layout |"):
        if found := re.match(r"(\d+)B, (\d+) ranks", name):
            shape = PUBLISHED[f"qwen2.5-{found[1]}b"]
            ranks = int(found[2])
            assert "`contextParallel: 8`" in name
        assert shape is not None
        ac = "save_attention" if "save_attention" in name else "full"
        for cell, tokens in ((at_64k, K64), (at_128k, K128)):
            if cell:
                peak = predict(shape, Layout(tokens=tokens, ac=ac, ranks=ranks, cp=8)).peak / GIB
                assert numbers(cell)[0] == round(peak), name
                assert ("does not fit" in cell) == (peak > 139)
                seen += 1
        if checkpoint:
            # fp32 weights and both moments; the page uses decimal gigabytes.
            assert numbers(checkpoint)[0] == pytest.approx(12 * shape.parameters / 1e9, abs=1.0)
    assert seen == 8


def test_figures_in_other_sentences_equal_the_planners() -> None:
    four = PUBLISHED["qwen3-4b"]
    more = predict(four, Layout(tokens=K64, ac="save_attention")).peak - predict(four, Layout(tokens=K64)).peak
    assert f"(of all heads: {round(more / GIB)} GiB more for a 4B at 65,536 tokens)" in PAGE
    assert f"({round(4 * PUBLISHED['qwen2.5-7b'].parameters / GIB)} GiB for a\n  7B)" in PAGE
    assert f"({2 * PUBLISHED['qwen2.5-72b'].parameters / 1e9:.0f} GB for 72B)" in PAGE
    assert (
        f"{predict(PUBLISHED['qwen2.5-72b'], Layout(tokens=K64, ranks=128, cp=8)).copied * 8 / 1e9:.0f} GB a node"
        in PAGE
    )
    readings = 4 * predict(PUBLISHED["qwen2.5-72b"], Layout(tokens=K64, ranks=128, cp=8)).copied * 8
    assert f"{readings / 1e9:.0f} GB a node, or\n  {readings / 8e9:.0f} s at 8 GB/s" in PAGE
    # The time budget of a restart.
    assert readings / 8e9 < 5 * 60
    balances = [round(PUBLISHED[name].balance / 100) * 100 for name in ("qwen2.5-72b", "qwen3-0.6b")]
    assert f"b ({balances[0]:,} for\n  72B, {balances[1]:,} for 0.6B)" in PAGE.replace("109,000", f"{balances[0]:,}")
    assert f"rows of {LONG_ROW:,} tokens and more" in PAGE


@pytest.mark.parametrize("recipe", MODELS)
def test_recipes_of_long_contexts_keep_attention_when_it_fits(recipe: str) -> None:
    """If a recipe also states a peak, it is the planner's."""
    assert layout_of(recipe).tokens >= K32

    def peak(ac: str | None = None) -> float:
        return predict(shape_of(recipe), layout_of(recipe, ac=ac)).peak / GIB

    # The driver leaves 79.6 GiB of an 80 GB card; the planner may be off by 15 %.
    fits = peak("save_attention") * 1.15 <= (79.6 if recipe == "qwen3-4b-one-gpu" else 139)
    assert layout_of(recipe).ac == ("save_attention" if fits else "full")
    line = next(line for line in recipe_text(recipe).splitlines() if line.startswith("  recompute:"))
    if stated := re.search(r"(\d+) GiB of a rank's", line):
        assert int(stated[1]) == round(peak())
        assert f"full takes {round(peak('full'))} " in line


def test_every_path_on_the_page_exists() -> None:
    names = set(re.findall(r"`((?:recipes|bench|trainer)/[\w./-]+)`", PAGE))
    assert len(names) > 3
    for name in names:
        assert (Path(TRAINER.parent) / name).exists(), name
