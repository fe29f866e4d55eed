"""Command line of the trainer. Heavy imports wait until a command needs them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="longhaul_trainer", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="serve|step|seal")

    serve = commands.add_parser("serve", help="embedded policy server (vLLM's token-in/token-out fields)")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback only)")
    serve.add_argument("--port", type=int, required=True)
    serve.add_argument("--state", type=Path, required=True, help="directory that remembers the served versions")
    serve.add_argument("--max-versions", type=int, default=4, help="policies held in memory at once (default 4)")
    serve.add_argument(
        "--threads", type=int, default=1, help="CPU threads of the model (default 1: best for tiny models)"
    )

    serve.add_argument(
        "--faults", action="store_true", help="for tests of checks: POST /v1/faults makes a wrong server"
    )

    step = commands.add_parser("step", help="one bounded, idempotent training job, described by a spec file")
    step.add_argument("--spec", type=Path, required=True)
    step.add_argument("--dry-run", action="store_true", help="check spec, config and batch; load no weights")

    seal = commands.add_parser("seal", help="write MANIFEST.json and COMMITTED into a finished model directory")
    seal.add_argument("directory", type=Path)
    seal.add_argument("--kind", default="policy")
    return parser


def main() -> int:
    arguments = build_parser().parse_args()
    # Idle OpenMP threads that spin would eat the sandboxes' cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if arguments.command == "serve":
        from longhaul_trainer.serve.command import serve

        return serve(
            host=arguments.host,
            port=arguments.port,
            state_dir=arguments.state,
            max_versions=arguments.max_versions,
            threads=arguments.threads,
            may_fault=arguments.faults,
        )
    if arguments.command == "step":
        from longhaul_trainer.step.command import step

        return step(arguments.spec, dry_run=arguments.dry_run)

    from longhaul_trainer.directory import seal

    print(seal(arguments.directory, kind=arguments.kind, facts={}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
