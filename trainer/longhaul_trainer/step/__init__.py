"""One bounded, idempotent training job: spec in, checkpoint and policy out."""
