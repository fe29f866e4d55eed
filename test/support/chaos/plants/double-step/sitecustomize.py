"""A mistake on purpose, for the test of the comparison: every optimizer step is applied twice, and counted once.

Python imports this file before the trainer's first line. Loss, gradient norm and step count of a first step say nothing of it; the
weights do.
"""

import os

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

_again = False


def _apply_again(optimizer: Optimizer, *_: object) -> None:
    global _again
    if _again:
        return
    _again = True
    try:
        optimizer.step()
        # The trainer compares the optimizer's own count with its steps before it commits.
        for state in optimizer.state.values():
            state["step"] -= 1
    finally:
        _again = False


if os.path.exists(os.environ["CHAOS_PLANT"]):
    register_optimizer_step_post_hook(_apply_again)
