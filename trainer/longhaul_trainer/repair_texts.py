"""Demonstrations of the family `half-renamed`: reads them, replaces the stems of their names, and trains their tokenizer.

Names carry no meaning, so one recorded episode serves for many: each use replaces its stems by others of the same length, and every text
stays as the tools would have printed it. Package and modules keep their stems, because tools list them in order of their names.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

TURN_END = "<|im_end|>"
SPECIAL = ("<|endoftext|>", "<|im_start|>", TURN_END)
"""Qwen3's special tokens, in its order."""
CONTEXT_WEIGHT = 0.1
"""Copying inside observations is practice for the copying that actions need."""
COMMAND = "```command\n"
# A digit and a colon after it are one piece. Words, digits and marks are separate pieces, so that a name has the same tokens
# everywhere.
WORD = re.compile(r"[^\W\d_]+|\d:?|\s+|[^\w\s]|_")
LEAST_DOCUMENTS = 4
SYLLABLES = [onset + vowel for onset in "bdfgklmnprstvz" for vowel in "aeiou"]
ROOTS = [first + second for first in SYLLABLES for second in SYLLABLES]
"""Every word of two syllables, whether or not a split contains it. Each is one token."""
SYLLABLE = "[BDFGKLMNPRSTVZbdfgklmnprstvz][aeiou]"
STEM_END = r"[lnrs]?(?!\p{L})"
# A stem is split into its root and its final letter, any other word of syllables into syllables. The final letter joins the underscore
# between two stems, so the second root always stands two tokens after the first.
PIECES = (
    rf"\d+:|(?<!\p{{L}})(?:[bdfgklmnprstvz][aeiou]){{2}}(?={STEM_END})|[lnrs]?_|{SYLLABLE}(?=(?:{SYLLABLE})*{STEM_END})"
    r"|\p{L}+|\p{N}|[^\s\p{L}\p{N}]|\n| +|\s+"
)


@dataclass(frozen=True, kw_only=True)
class Segment:
    text: str
    is_action: bool
    is_mistake: bool


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    segments: list[Segment]
    roots: list[str]
    """Roots that may be replaced."""
    kept: list[str]
    """Roots of package and modules, which stay."""


@dataclass(frozen=True)
class Row:
    """One episode: ids [T], the loss weight of each id as a label [T], and for each turn (first id, first id of the command's
    arguments, end)."""

    ids: list[int]
    weights: list[float]
    turns: list[tuple[int, int, int]]


def read_demonstrations(path: Path) -> list[Demonstration]:
    with path.open() as file:
        return [_demonstration(json.loads(line)) for line in file]


def _demonstration(record: dict[str, Any]) -> Demonstration:
    segments = [
        Segment(text=one["text"], is_action=one["isAction"], is_mistake=one.get("isMistake", False))
        for one in record["segments"]
    ]
    return Demonstration(segments=segments, roots=record["roots"], kept=record["kept"])


def renamed(demonstration: Demonstration, roots: list[str], generator: random.Random) -> Demonstration:
    """The same episode with other roots. A stem is a root and at most one letter; its first letter may be upper or lower case."""
    own = demonstration.roots
    taken = {*own, *demonstration.kept}
    fresh = [root for root in generator.sample(roots, len(own) + len(taken)) if root not in taken][: len(own)]
    new = dict(zip(own, fresh, strict=True))
    if not new:
        return demonstration
    pattern = re.compile(f"(?<![A-Za-z])({'|'.join(own)})(?=[lnrs]?(?![A-Za-z]))", re.IGNORECASE)

    def replace(match: re.Match[str]) -> str:
        old = match[0]
        other = new[old.lower()]
        return other.capitalize() if old[0].isupper() else other

    segments = [
        Segment(text=pattern.sub(replace, one.text), is_action=one.is_action, is_mistake=one.is_mistake)
        for one in demonstration.segments
    ]
    return Demonstration(segments=segments, roots=fresh, kept=demonstration.kept)


def to_row(demonstration: Demonstration, tokenizer: Tokenizer) -> Row:
    """Tokenises segments one by one, like prompts and deltas in a run. Deliberate mistakes get weight 0."""
    ids: list[int] = []
    weights: list[float] = []
    turns: list[tuple[int, int, int]] = []
    for segment in demonstration.segments:
        piece = tokenizer.encode(segment.text, add_special_tokens=False)
        learned = segment.is_action and not segment.is_mistake
        if learned:
            at = segment.text.find(COMMAND) + len(COMMAND)
            argument = at + len(segment.text[at:].split(" ", 1)[0])
            begin = next((index for index, (start, _) in enumerate(piece.offsets) if start >= argument), len(piece.ids))
            turns.append((len(ids), len(ids) + begin, len(ids) + len(piece.ids)))
        ids += piece.ids
        weights += [1.0 if learned else 0.0 if segment.is_action else CONTEXT_WEIGHT] * len(piece.ids)
    return Row(ids, weights, turns)


def copies(roots: list[str], generator: random.Random, tokenizer: Tokenizer, *, names: int, lists: int) -> Row:
    """Practice in copying: `lists` lists of the same names, each in another order.

    The first list has no weight, because none of its tokens is predictable. In an episode most tokens have no earlier copy; here all
    tokens after the first list have one.
    """
    stems = [root + generator.choice(["", *"lnrs"]) for root in generator.sample(roots, 2 * names)]
    lines = [f"{first}_{second}\n" for first, second in zip(stems[::2], stems[1::2], strict=True)]
    ids: list[int] = []
    weights: list[float] = []
    for number in range(lists):
        piece = tokenizer.encode("".join(generator.sample(lines, names)), add_special_tokens=False).ids
        ids += piece
        weights += [float(number > 0)] * len(piece)
    return Row(ids, weights, [])


def train_tokenizer(documents: list[list[str]], fixed: Iterable[str], *, vocab_size: int) -> Tokenizer:
    """Every text round-trips, because the alphabet has all 256 bytes. The same texts give the same tokenizer.

    Each text of `fixed` is one token, and so is each root: a name of six tokens offers six chances to slip into another name with the
    same beginning. All roots count, whichever split they belong to: otherwise a root of training would be one token and a root of
    evaluation several. Each document counts a word once, and a merge must occur in a twentieth of the documents.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(  # type: ignore[assignment]
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    fixed = list(fixed)
    least = max(LEAST_DOCUMENTS, len(documents) // 20)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=least,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[AddedToken(name, special=True) for name in SPECIAL],
        show_progress=False,
    )
    # Texts that are one token anyway must not contribute merges.
    splitter = re.compile("|".join(map(re.escape, [*SPECIAL, *sorted(fixed, key=len, reverse=True)])))

    def words(texts: list[str]) -> list[str]:
        return sorted({word for text in texts for part in splitter.split(text) for word in WORD.findall(part)})

    spelled = (f"{word} " * least for word in [*ROOTS, *(f"{letter}_" for letter in "lnrs")])
    tokenizer.train_from_iterator(chain(spelled, (word for texts in documents for word in words(texts))), trainer)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in fixed])
    return tokenizer
