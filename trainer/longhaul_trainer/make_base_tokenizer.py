"""Tokenizer of the demo's base policy: byte-level BPE. A name has the same tokens everywhere, so the model copies it token by token."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"

# Texts of scaffold and tools that recur in every episode. Each is one piece, so that it costs one token. The spelling must match
# the scaffold's; a phrase that no longer occurs only makes episodes longer.
PHRASES = (
    "Fix the bug. One command per turn.",
    "\n\n(Current directory: /testbed, current file: ",
    ") bash-$",
    "Your reply held more than one command block, so none of them was run.",
    "Your reply held no command block, so nothing was run.",
    " Write exactly one block of this form:",
    "The command ran and printed nothing.",
    "The command failed with exit code ",
    " and printed nothing.",
    "File updated. Check indentation and repeated lines.\n",
    "[File: ",
    " lines total)]\n",
    " more lines above)\n",
    " more lines below)",
    "No matches in ",
    " match in ",
    " matches in ",
    "No file is open. Open one first: open FILE",
    "system\n",
    "user\n",
    "assistant\n",
    "\n```command\n",
    "```command\n",
    "\n```",
    "Search ",
    'search_file "def ',
    'git grep -n "def ',
    "git grep -n ",
    "Open line ",
    "Wrong file. ",
    "Maybe this file.",
    "Looks fine.",
    "Look again.",
    "List files.",
    "I run this now.\n",
    "Done.",
    "submit",
    "scroll_up",
    "scroll_down",
    "open ",
    "edit ",
    "ls ",
    " <<EOF\n",
    "\nEOF",
    ".py",
    "__init__",
    "` is wrong. It should return ",
    " is wrong. It should return ",
    " is wrong. We expect ",
    "` in ",
    "the first argument",
    "the second",
    "both arguments",
    "the argument",
    "True only if ",
    "def ",
    '"""',
    " // ",
    " >= ",
    " <= ",
    " == ",
    " != ",
    " + ",
    " - ",
    " * ",
    " % ",
    " < ",
    " > ",
    "        ",
    "    ",
)

# A line number with its colon is one piece, and so is the first word of a statement with its indentation. Words, numbers and
# marks are separate pieces, so that a name has the same tokens in an issue, a path, a definition and a command.
STRUCTURE = r"\d+:|    return [a-z]+|        return [a-z]+|    if [a-z]+"
WORDS = r"\p{L}+|\p{N}{1,2}|[^\s\p{L}\p{N}]|\n| +|\s+"


def train_tokenizer(texts: Iterable[str], *, vocab_size: int) -> Tokenizer:
    """Every text round-trips, because the alphabet has all 256 bytes. The same texts give the same tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    pattern = "|".join([STRUCTURE, *(_escape(phrase) for phrase in PHRASES), WORDS])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(  # type: ignore[assignment]
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[AddedToken(name, special=True) for name in (END_OF_TEXT, TURN_START, TURN_END)],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _escape(phrase: str) -> str:
    """Escapes a phrase for Oniguruma, the regular expressions of `tokenizers`; re.escape follows other rules."""
    return "".join("\\n" if char == "\n" else f"\\{char}" if char in "().[]*+?|^$\\/" else char for char in phrase)
