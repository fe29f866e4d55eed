"""Longhaul's trainer: bounded training jobs and an embedded policy server. It knows files and HTTP, not Temporal."""

VERSION = "0.1.0"
