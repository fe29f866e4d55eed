"""A published policy or a checkpoint as a plain Hugging Face directory, for engines and people that know nothing of a run."""
