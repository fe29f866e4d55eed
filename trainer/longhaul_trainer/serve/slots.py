"""Key/value memory of running requests. Each request has a row, indexed by position, so new requests join without re-padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

GROW_ROWS = 8
GROW_TOKENS = 256


@dataclass(frozen=True)
class Parked:
    """Keys and values of a finished request, for the next turn of the same session. k, v: [layers, H, T, D]."""

    ids: list[int]
    keys: torch.Tensor
    values: torch.Tensor

    @property
    def bytes(self) -> int:
        return 2 * self.keys.numel() * self.keys.element_size()


class Slots:
    """Rows [0, n) are in use. Padding may leave garbage after a row's end; masks from lengths hide it."""

    def __init__(self, config: Any, device: torch.device) -> None:
        heads = config.num_key_value_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.layers = config.num_hidden_layers
        self.device = device
        self.keys = torch.zeros(self.layers, 0, heads, 0, width, device=device)
        self.values = torch.zeros_like(self.keys)
        self._first = 0
        self._last = 0
        self._length = 0
        self._positions = torch.zeros(0, 0, dtype=torch.long, device=device)
        self._rows = self._positions

    def reserve(self, rows: int, tokens: int) -> None:
        _, have_rows, heads, have_tokens, width = self.keys.shape
        if rows <= have_rows and tokens <= have_tokens:
            return
        new_rows = max(have_rows, -(-rows // GROW_ROWS) * GROW_ROWS)
        new_tokens = max(have_tokens, -(-tokens // GROW_TOKENS) * GROW_TOKENS)
        for name in ("keys", "values"):
            grown = torch.zeros(self.layers, new_rows, heads, new_tokens, width, device=self.device)
            grown[:, :have_rows, :, :have_tokens] = getattr(self, name)
            setattr(self, name, grown)

    def focus(self, first: int, positions: torch.Tensor) -> torch.Tensor:
        """The next forward pass writes `positions` [n, Q] of the rows from `first` on. Returns its mask [n, 1, Q, K], True = visible."""
        count, _ = positions.shape
        self._first, self._last = first, first + count
        self._length = int(positions.max()) + 1
        self._positions = positions
        self._rows = torch.arange(count, device=self.device)[:, None]
        self.reserve(self._last, self._length)
        return torch.arange(self._length, device=self.device) <= positions[:, None, :, None]

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any) -> Any:
        """Each attention layer calls this like a transformers cache. keys, values: [n, H, Q, D]. Returns both as [n, H, K, D]."""
        seen = []
        for store, new in ((self.keys, keys), (self.values, values)):
            rows = store[layer, self._first : self._last]
            rows.transpose(1, 2)[self._rows, self._positions] = new.transpose(1, 2).to(rows.dtype)
            seen.append(rows[:, :, : self._length])
        return tuple(seen)

    def get_seq_length(self, *_: Any) -> int:
        return self._length

    def move(self, source: int, target: int, tokens: int) -> None:
        for store in (self.keys, self.values):
            store[:, target, :, :tokens] = store[:, source, :, :tokens]

    def park(self, row: int, ids: list[int]) -> Parked:
        keys, values = (store[:, row, :, : len(ids)].clone() for store in (self.keys, self.values))
        return Parked(ids=ids, keys=keys, values=values)

    def restore(self, row: int, parked: Parked, tokens: int) -> None:
        self.reserve(row + 1, tokens)
        self.keys[:, row, :, :tokens] = parked.keys[:, :, :tokens]
        self.values[:, row, :, :tokens] = parked.values[:, :, :tokens]
