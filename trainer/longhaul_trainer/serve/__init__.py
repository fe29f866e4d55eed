"""Embedded policy server: vLLM's token-in / token-out fields over a Hugging Face model, for tests, demos and CPUs."""
