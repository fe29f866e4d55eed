"""Exports a published policy or a checkpoint as a plain Hugging Face directory, which needs nothing of its run."""
