"""Imports models of other projects as sealed policy directories, with a proof that they compute the same logits."""
