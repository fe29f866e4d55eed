"""A Qwen3 model that is initialised with a copying circuit. The task needs invented names copied, and training finds that circuit late.

From random weights the model still guessed names after three million tokens. With this initialisation it copies names that no batch
contained after thirty steps of lists. The architecture is unchanged, and every weight is trained.

Layer 0 has one head that attends one token back and one that attends two tokens back. Their queries and keys come from a constant
component of all embeddings, rotated so that the score peaks at that distance. Both heads write 32 random projections of the token they
find into dimensions that embeddings leave free. Layer 1 has induction heads (Olsson et al. 2022, arXiv 2209.11895): some match on the
previous token, the others on the previous two tokens. They copy the embedding of the token they find. Initialising attention near a
useful function instead of at noise is mimetic initialization (Trockman and Kolter 2023, arXiv 2305.09828).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

HEAD = 64
HALF = HEAD // 2
MATCHED = 32
"""Dimensions in which tokens are compared: the half of a head that rotates slowest."""
THETA = 1e6
"""As in Qwen3. The slow half turns by at most 1.4 rad within 1,400 tokens; a theta of 10,000 would turn it by 14."""
SCALE = 0.08
"""Standard deviation of embeddings. With the usual 0.02 the tied head cannot single out one of 5,500 tokens."""
SHARPNESS = 2.0
"""Initial gain of the query and key norms: scores reach 32 instead of 8."""
POSITION_SHARPNESS = 2.5
FAST_PAIRS = 8
"""Rotary pairs that distinguish adjacent positions."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Heads have 64 dimensions. There are as many key heads as query heads."""

    hidden: int
    layers: int
    heads: int
    mlp: int

    def __post_init__(self) -> None:
        slices = -(-self.identity // HEAD)
        if self.layers < 2 or self.identity < MATCHED or self.heads < 2 * slices:
            raise ValueError(
                f"Expected 2 layers, hidden size {2 * MATCHED + 1 + MATCHED} and {2 * slices} heads or more, got {self}"
            )

    @property
    def identity(self) -> int:
        """Embedding dimensions that identify the token. The others hold the previous token, the one before it, and a constant."""
        return self.hidden - 2 * MATCHED - 1


def new_model(vocabulary: int, eos: int, shape: Shape, *, context: int, seed: int) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=vocabulary,
            hidden_size=shape.hidden,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.heads,
            head_dim=HEAD,
            intermediate_size=shape.mlp,
            max_position_embeddings=context,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": THETA},
            bos_token_id=None,
            eos_token_id=eos,
            # No pad id: transformers would drop that embedding's gradient, though the policy may sample the token.
            pad_token_id=None,
            attention_dropout=0.0,
        )
    )
    _lay_circuit(model, shape)
    return model


@torch.no_grad()
def _lay_circuit(model: Qwen3ForCausalLM, shape: Shape) -> None:
    identity, constant = shape.identity, shape.hidden - 1
    embeddings = model.model.embed_tokens.weight
    embeddings.zero_()
    embeddings[:, :identity] = torch.randn(len(embeddings), identity) * SCALE
    embeddings[:, constant] = SCALE * math.sqrt(identity)
    attentions = [cast(Qwen3Attention, layer.self_attn) for layer in model.model.layers]
    for attention in attentions:
        attention.q_norm.weight.fill_(SHARPNESS)
        attention.k_norm.weight.fill_(SHARPNESS)
    projection = torch.linalg.qr(torch.randn(identity, MATCHED))[0].T.contiguous()
    looking_back, matching = attentions[:2]
    for distance in (1, 2):
        _lay_positional_head(looking_back, distance, projection, shape)
    looking_back.q_norm.weight.fill_(POSITION_SHARPNESS)
    looking_back.k_norm.weight.fill_(POSITION_SHARPNESS)
    slices = -(-identity // HEAD)
    for head in range(2 * slices):
        _lay_matching_head(matching, head, projection, shape, is_pair=head >= slices)
        _lay_copy(matching, head, range(identity)[head % slices * HEAD :][:HEAD])


def _lay_positional_head(attention: Qwen3Attention, distance: int, projection: torch.Tensor, shape: Shape) -> None:
    """Makes a head write the token `distance` positions back into its dimensions, at a tenth of a normalised embedding's scale."""
    head, identity, constant = distance - 1, shape.identity, shape.hidden - 1
    rows = slice(head * HEAD, (head + 1) * HEAD)
    query, key = torch.zeros(HEAD), torch.zeros(HEAD)
    for pair in range(FAST_PAIRS):
        angle = THETA ** (-pair / HALF) * distance
        query[pair], query[pair + HALF], key[pair] = math.cos(angle), -math.sin(angle), 1
    for matrix, vector in ((attention.q_proj.weight, query), (attention.k_proj.weight, key)):
        matrix[rows] *= 0.3
        matrix[rows, constant] = vector
    attention.v_proj.weight[rows] = 0
    attention.v_proj.weight[head * HEAD : head * HEAD + MATCHED, :identity] = projection
    attention.o_proj.weight[:, rows] = 0
    before = identity + head * MATCHED
    attention.o_proj.weight[before : before + MATCHED, head * HEAD : head * HEAD + MATCHED] = 0.1 * torch.eye(MATCHED)


def _lay_matching_head(
    attention: Qwen3Attention, head: int, projection: torch.Tensor, shape: Shape, *, is_pair: bool
) -> None:
    """Makes a head attend to positions whose previous token equals the current token. With `is_pair`, every other dimension also
    compares the token before each of them."""
    identity = shape.identity
    query, key = attention.q_proj.weight, attention.k_proj.weight
    rows = slice(head * HEAD, (head + 1) * HEAD)
    query[rows] *= 0.3
    key[rows] *= 0.3
    for index in range(MATCHED):
        slow = head * HEAD + HALF // 2 + index + (HALF // 2 if index >= HALF // 2 else 0)
        query[slow], key[slow] = 0, 0
        if is_pair and index % 2 == 1:
            query[slow, identity + index] = 2
            key[slow, identity + MATCHED + index] = 2
        else:
            query[slow, :identity] = 2 * projection[index]
            key[slow, identity + index] = 2


def _lay_copy(attention: Qwen3Attention, head: int, dimensions: range) -> None:
    """Makes a head add these dimensions of the token that it attends to."""
    first, begin, end = head * HEAD, dimensions.start, dimensions.stop
    attention.v_proj.weight[first : first + HEAD] = 0
    attention.v_proj.weight[first : first + end - begin, begin:end] = torch.eye(end - begin)
    attention.o_proj.weight[:, first : first + HEAD] = 0
    attention.o_proj.weight[begin:end, first : first + end - begin] = 0.2 * torch.eye(end - begin)
