"""Losses, corrections, schedule and metrics: pure functions of flat vectors over loss tokens."""
