"""Demonstrations of the family `half-renamed`: reading them, giving their names other stems, and the tokenizer for them.

Names carry no meaning, so one played episode stands for as many as there are stems: each time it is learned from, its
stems are replaced by others of the same length, which leaves every text as the tools would have printed it. Package and
modules keep theirs: their order shows in what tools list.
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
"""As in Qwen3, in its order."""
CONTEXT_WEIGHT = 0.1
"""Copying inside observations is free practice for the copying that actions need."""
COMMAND = "```command\n"
# Line numbers with their colon are one key to look up; words, digits and marks are pieces of their own, so that a name
# has the same tokens wherever it stands.
WORD = re.compile(r"[^\W\d_]+|\d:?|\s+|[^\w\s]|_")
LEAST_DOCUMENTS = 4
SYLLABLES = [onset + vowel for onset in "bdfgklmnprstvz" for vowel in "aeiou"]
ROOTS = [first + second for first in SYLLABLES for second in SYLLABLES]
"""Every word of two syllables, whether a split has it or not: one token each."""
SYLLABLE = "[BDFGKLMNPRSTVZbdfgklmnprstvz][aeiou]"
STEM_END = r"[lnrs]?(?!\p{L})"
# A stem is cut into its root and its letter, any other word of syllables into them. The letter goes with the mark between two stems:
# the second root always stands two tokens behind the first.
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
    """Those that may be replaced."""
    kept: list[str]
    """Roots of package and modules."""


@dataclass(frozen=True)
class Row:
    """One episode: ids [T], the loss weight of each id as a label [T], and for each turn its range in ids with the place
    where the command's arguments begin."""

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
    """The same episode with other stems. A stem is its root and at most one letter, in either case of its first letter."""
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
    """Segments are tokenised one by one, as prompts and deltas are in a run. Wrong turns on purpose are not learned."""
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
    """Practice in copying: a list of names, and again in other orders until there are so many lists. The first one has no
    weight, since no token of it can be known. In an episode most tokens have no earlier copy; here all others have."""
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
    """Any text round-trips: all 256 bytes are in the alphabet. Deterministic for the same texts.

    `fixed` are one token each, and so is every root: a name of six tokens is copied with six chances to go astray, among
    others that begin alike. No split is known here: a root of training alone would be copied as one token, and one of evaluation
    as several. Each document counts a word once, and a merge has to stand in a twentieth of the documents.
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
    # What is one token anyway must not teach merges.
    splitter = re.compile("|".join(map(re.escape, [*SPECIAL, *sorted(fixed, key=len, reverse=True)])))

    def words(texts: list[str]) -> list[str]:
        return sorted({word for text in texts for part in splitter.split(text) for word in WORD.findall(part)})

    spelled = (f"{word} " * least for word in [*ROOTS, *(f"{letter}_" for letter in "lnrs")])
    tokenizer.train_from_iterator(chain(spelled, (word for texts in documents for word in words(texts))), trainer)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in fixed])
    return tokenizer
