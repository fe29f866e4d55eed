"""Longhaul's trainer: bounded training jobs and an embedded policy server. Knows files and HTTP, no orchestrator."""

VERSION = "0.1.0"
