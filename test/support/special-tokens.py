"""Which special tokens real tokenizers find in texts: reads {"families": {name: [mark]}, "texts": [text]}, writes what was found."""

import json
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

asked = json.load(sys.stdin)


def make(marks: list[str], *, is_normalized: bool, normalizer: object) -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={text: at for at, text in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=is_normalized) for mark in marks])
    return tokenizer


found = {}
for family, marks in asked["families"].items():
    kinds = {
        "plain": make(marks, is_normalized=False, normalizer=None),
        "nfc": make(marks, is_normalized=True, normalizer=normalizers.NFC()),
        "nfkc": make(marks, is_normalized=True, normalizer=normalizers.NFKC()),
        # Drops control characters, as BERT's does, before marks are looked for.
        "clean": make(
            marks,
            is_normalized=True,
            normalizer=normalizers.BertNormalizer(clean_text=True, strip_accents=False, lowercase=False),
        ),
    }
    for kind, tokenizer in kinds.items():
        special = {tokenizer.token_to_id(mark) for mark in marks}
        hits = [
            [text, tokenizer.decode([one for one in encoded.ids if one in special], skip_special_tokens=False)]
            for text, encoded in zip(asked["texts"], tokenizer.encode_batch(asked["texts"], add_special_tokens=False))
            if special & set(encoded.ids)
        ]
        found[f"{family} {kind}"] = hits
json.dump(found, sys.stdout)
