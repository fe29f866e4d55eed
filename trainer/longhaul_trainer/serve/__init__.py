"""Embedded policy server for tests, demos and CPUs: vLLM's token-in/token-out API over a Hugging Face model."""
