"""Command line of the trainer. Each command imports torch and transformers only if it needs them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from longhaul_trainer.imports import heavy_imports
from longhaul_trainer.step.place import end_process

# Copies of attention.BACKENDS and recompute.OFFLOADS: importing those modules would import torch.
ATTENTION = ("auto", "fa3", "varlen", "rows")
ATTENTION_HELP = (
    "auto: long rows alone, cuDNN's kernel first; fa3: FlashAttention-3, which needs Hopper and its package"
)
OFFLOADS = ("none", "serial", "overlapped")
OFFLOADS_HELP = "keep layer inputs on the host; serial: copy between the layers, overlapped: copy while they compute"


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="longhaul_trainer", description=__doc__)
    commands = parser.add_subparsers(
        dest="command",
        required=True,
        metavar="serve|step|plan|simulate|bench|agree|random-model|import|export|adapter|seal",
    )

    serve = commands.add_parser("serve", help="embedded policy server (vLLM's token-in/token-out fields)")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback only)")
    serve.add_argument(
        "--api-key-variable", help="environment variable with the key; needed on any address but loopback"
    )
    serve.add_argument("--port", type=int, required=True)
    serve.add_argument("--state", type=Path, required=True, help="directory that remembers the served versions")
    serve.add_argument("--max-versions", type=int, default=4, help="policies held in memory at once (default 4)")
    serve.add_argument(
        "--threads", type=int, default=1, help="CPU threads of the model (default 1: best for tiny models)"
    )

    serve.add_argument(
        "--faults", action="store_true", help="for tests: POST /v1/faults makes the server answer wrongly"
    )

    step = commands.add_parser("step", help="one bounded, idempotent training job, described by a spec file")
    step.add_argument("--spec", type=Path, required=True)
    step.add_argument("--dry-run", action="store_true", help="check spec, config and batch; load no weights")

    plan = commands.add_parser("plan", help="memory of one rank and tokens in flight for a model and a layout")
    add_layout(plan)
    plan.add_argument("--memory-gib", type=float, default=139.0, help="of one device (default: an H200's 139)")
    plan.add_argument("--json", action="store_true")

    simulate = commands.add_parser(
        "simulate", help="one rank's step of any layout through the trainer's code, on tensors without data"
    )
    add_layout(simulate)
    simulate.add_argument("--layers", type=int, help="fewer layers than the model has")
    simulate.add_argument(
        "--overlapped", action="store_true", help="copies of --offload activations run beside the layers"
    )
    simulate.add_argument(
        "--accumulates", action="store_true", help="a later micro-batch of the step: its gradients add to earlier ones"
    )

    bench = commands.add_parser("bench", help="tokens a second, peak memory and time by phase on random weights")
    bench.add_argument("--model", required=True, help="model directory, or a published name such as qwen3-0.6b")
    bench.add_argument("--context", type=int, required=True, help="tokens of a row")
    bench.add_argument("--rows", type=int, default=1)
    bench.add_argument("--steps", type=int, default=3, help="measured steps, after one warm-up step")
    bench.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    bench.add_argument("--head", choices=("chunked", "plain"), default="chunked")
    bench.add_argument("--attention", choices=ATTENTION, default="auto", help=ATTENTION_HELP)
    bench.add_argument(
        "--compile",
        choices=("none", "inductor", "eager"),
        default="none",
        help="compile norms, feed-forward and the head's sums; eager: trace them only, which needs no compiler",
    )
    bench.add_argument("--optimizer", choices=("fused", "foreach"), default="fused", help="of torch's AdamW, on a GPU")
    bench.add_argument("--ac", choices=("none", "full", "save_attention"), default="full")
    bench.add_argument("--offload-activations", choices=OFFLOADS, default="none", help=OFFLOADS_HELP)
    bench.add_argument(
        "--prox",
        choices=("separate", "first"),
        default="separate",
        help="proximal log-probabilities by a pass of their own, or from the step's own forward pass",
    )
    bench.add_argument("--lora-rank", type=int)
    bench.add_argument(
        "--state-in", metavar="DIRECTORY", help="save a training state there and read it back (removed afterwards)"
    )
    bench.add_argument("--layers", type=int, help="fewer layers than the model has, for a smaller machine")

    agree = commands.add_parser(
        "agree", help="log-probabilities and gradient of one layout, stored or held against those of another"
    )
    agree.add_argument("--model", type=Path, required=True, help="directory with config.json and weights")
    agree.add_argument("--context", type=int, required=True, help="tokens of the longest row")
    agree.add_argument("--rows", type=int, default=3, help="each half as long as the one before it (default 3)")
    agree.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    agree.add_argument("--compute", choices=("float32", "bfloat16"), default="float32")
    agree.add_argument("--attention", choices=ATTENTION, default="auto", help=ATTENTION_HELP)
    agree.add_argument("--ac", choices=("none", "full", "save_attention"), default="none")
    agree.add_argument("--offload-activations", choices=OFFLOADS, default="none", help=OFFLOADS_HELP)
    agree.add_argument("--cp", type=int, default=1, help="context parallel ranks; torchrun starts them")
    agree.add_argument("--alone", action="store_true", help="a micro-batch for each row instead of one for all")
    agree.add_argument("--store", type=Path, metavar="FILE", help="keep the log-probabilities")
    agree.add_argument("--against", type=Path, metavar="FILE", help="compare with what another layout kept")

    random_model = commands.add_parser("random-model", help="random weights of a shape as a model directory")
    random_model.add_argument("directory", type=Path)
    random_model.add_argument("--shape", required=True, help="published name such as qwen3-0.6b, or a directory")
    random_model.add_argument("--layers", type=int, help="fewer layers than the shape has")
    random_model.add_argument("--context", type=int, default=8192, help="positions (default 8192)")
    random_model.add_argument("--seed", type=int, default=0)

    export = commands.add_parser("export", help="a policy or checkpoint as a plain Hugging Face directory")
    export.add_argument("source", type=Path, help="sealed policy or checkpoint directory; every hash is checked first")
    export.add_argument("target", type=Path, help="directory to make; it must not exist")
    export.add_argument(
        "--dtype",
        choices=("bfloat16", "float16", "float32"),
        help="of a checkpoint's weights (default bfloat16); adapters are merged. A policy keeps what it was published with",
    )
    export.add_argument("--expect-sha256", help="hash that the source's MANIFEST.json must have")

    adapter = commands.add_parser("adapter", help="the adapters of a checkpoint in PEFT's layout")
    adapter.add_argument("checkpoint", type=Path, help="sealed checkpoint that was trained with LoRA")
    adapter.add_argument("base", type=Path, help="sealed policy whose weights were frozen; every tensor is compared")
    adapter.add_argument("target", type=Path, help="directory to make; it must not exist")
    adapter.add_argument("--base-name", required=True, help="where others have the base: OWNER/NAME of a hub")
    adapter.add_argument("--base-revision", required=True, help="commit of it")
    adapter.add_argument("--expect-sha256", help="hash that the checkpoint's MANIFEST.json must have")

    importing = commands.add_parser(
        "import", help="a model directory or GGUF file as a sealed policy, proven to be equal"
    )
    importing.add_argument("source", type=Path, help="Hugging Face model directory, or .gguf file")
    importing.add_argument("target", type=Path, help="directory to make; it must not exist")
    importing.add_argument("--chat-format", choices=("chatml", "llama3"), help="instead of what the template shows")
    importing.add_argument("--tokenizer", type=Path, help="directory with the tokenizer, instead of the source's own")
    importing.add_argument("--origin", help="where the source comes from, for the record")

    seal = commands.add_parser("seal", help="write MANIFEST.json and COMMITTED into a finished model directory")
    seal.add_argument("directory", type=Path)
    seal.add_argument("--kind", default="policy")
    return parser


def add_layout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, help="model directory, or a published name such as qwen2.5-7b")
    parser.add_argument("--context", type=int, required=True, help="tokens of the longest row")
    parser.add_argument("--max-tokens-per-micro", type=int, help="tokens of one micro-batch (default: the context)")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--ranks-per-node", type=int, default=1)
    parser.add_argument("--cp", type=int, default=1, help="context parallel ranks for one row")
    parser.add_argument("--ac", choices=("none", "full", "save_attention"), default="full")
    parser.add_argument("--offload", choices=("none", "activations", "optimizer", "both"), default="none")
    parser.add_argument("--states", choices=("float32", "bfloat16"), default="float32", help="optimizer moments")
    parser.add_argument("--lora-rank", type=int, help="train adapters of this rank instead of all weights")


def main() -> int:
    arguments = build_parser().parse_args()
    set_environment()
    if arguments.command == "serve":
        with heavy_imports():
            from longhaul_trainer.serve.command import serve

        return serve(
            host=arguments.host,
            port=arguments.port,
            state_dir=arguments.state,
            max_versions=arguments.max_versions,
            threads=arguments.threads,
            may_fault=arguments.faults,
            api_key_variable=arguments.api_key_variable,
        )
    if arguments.command == "step":
        from longhaul_trainer.step.command import step

        return step(arguments.spec, dry_run=arguments.dry_run)

    if arguments.command == "plan":
        return run_plan(arguments)

    if arguments.command == "simulate":
        return run_simulation(arguments)

    if arguments.command == "bench":
        return run_bench(arguments)

    if arguments.command == "agree":
        return run_agreement(arguments)

    if arguments.command == "random-model":
        from longhaul_trainer.bench_agreement import write_model

        return write_model(**{name: value for name, value in vars(arguments).items() if name != "command"})

    if arguments.command == "adapter":
        from longhaul_trainer.export.adapter import AdapterBase, adapter

        base = AdapterBase(arguments.base, arguments.base_name, arguments.base_revision)
        return adapter(
            checkpoint=arguments.checkpoint,
            base=base,
            target=arguments.target,
            expected_sha256=arguments.expect_sha256,
        )
    if arguments.command == "export":
        from longhaul_trainer.export.command import export

        return export(
            source=arguments.source,
            target=arguments.target,
            dtype=arguments.dtype,
            expected_sha256=arguments.expect_sha256,
        )

    if arguments.command == "import":
        from longhaul_trainer.importer.command import ImportOptions, import_model

        return import_model(
            ImportOptions(**{name: value for name, value in vars(arguments).items() if name != "command"})
        )

    from longhaul_trainer.directory import seal

    print(seal(arguments.directory, kind=arguments.kind, facts={}))
    return 0


def set_environment() -> None:
    """Sets environment variables that libraries read on first use. Values set by the operator win."""
    # Spinning idle OpenMP threads would take cores from the sandboxes.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Micro-batches differ in length. Segments of fixed size would leave gaps too small for later tensors.
    if "PYTORCH_ALLOC_CONF" not in os.environ:
        os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")


def run_plan(arguments: argparse.Namespace) -> int:
    from longhaul_trainer.plan.command import plan

    return plan(
        model=arguments.model, layout=layout_of(arguments), memory_gib=arguments.memory_gib, as_json=arguments.json
    )


def run_simulation(arguments: argparse.Namespace) -> int:
    from longhaul_trainer.simulate import simulate

    return simulate(
        model=arguments.model,
        layout=layout_of(arguments),
        layers=arguments.layers,
        overlaps=arguments.overlapped,
        accumulates=arguments.accumulates,
    )


def layout_of(arguments: argparse.Namespace) -> Any:
    from longhaul_trainer.plan.memory import Layout

    return Layout(
        # A row above the micro-batch limit forms its own micro-batch, so the longer of the two sets the peak.
        tokens=max(arguments.context, arguments.max_tokens_per_micro or 0),
        ranks=arguments.nodes * arguments.ranks_per_node,
        cp=arguments.cp,
        ac=arguments.ac,
        offload=arguments.offload,
        states=arguments.states,
        lora_rank=arguments.lora_rank,
    )


def run_bench(arguments: argparse.Namespace) -> int:
    from longhaul_trainer.bench import BenchOptions, bench
    from longhaul_trainer.failures import CLASSES, JobError

    options = {name: value for name, value in vars(arguments).items() if name != "command"}
    try:
        return bench(BenchOptions(**options))
    except JobError as error:
        print(f"{CLASSES[error.code]}: {error.message}", file=sys.stderr)
        return error.code


def run_agreement(arguments: argparse.Namespace) -> int:
    from longhaul_trainer.bench_agreement import AgreeOptions, agree
    from longhaul_trainer.failures import CLASSES, JobError

    options = {name: value for name, value in vars(arguments).items() if name != "command"}
    try:
        return agree(AgreeOptions(**options))
    except JobError as error:
        print(f"{CLASSES[error.code]}: {error.message}", file=sys.stderr)
        return error.code


if __name__ == "__main__":
    end_process(main())
