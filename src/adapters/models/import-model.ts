import { mkdir, rm, rmdir } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { ChatFormatName } from '../../contracts/policy.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { lastLine, runCommand } from '../../platform/run-command.ts'
import { sweepTempFiles, tempName } from '../../platform/temp-files.ts'
import { downloadModel, type HubModel } from './hub-model.ts'
import { makeDirectory } from '../../platform/files.ts'

/** The record that `longhaul_trainer import` writes into the policy as `longhaul.json`, and the policy's directory. */
export interface ImportRecord {
  schema: 'longhaul.import/1'
  source: { kind: 'hugging-face' | 'gguf'; origin: string | null; files: Record<string, string> }
  architecture: string
  parameters: number
  dtypes: string[]
  tied: boolean
  chat_format: ChatFormatName
  chat: { template: string }
  proof: {
    positions: number
    same_argmax: number
    largest_difference: number
    spread_of_logits: number
    tolerance: number
  }
  directory: string
  manifest_sha256: string
}

export interface ImportModelInput {
  /** A local directory or file, or a model on the hub. */
  source: string | HubModel
  /** The policy directory to create; it must not exist. */
  output: string
  chatFormat: ChatFormatName | null
  /** Directory of the tokenizer, instead of the source's own; null for the source's own. */
  tokenizer: string | null
  /** A Python interpreter with the trainer's packages, and the environment it needs to import the trainer. */
  python: string
  environment: NodeJS.ProcessEnv
  log: (line: string) => void
  /** Called with a description of the progress. */
  onProgress?: (text: string) => void
  signal: AbortSignal
}

/** Prefix of the trainer's progress lines. */
const PROGRESS = 'progress: '
/** Verifying a large model reads it twice, on a CPU. */
const TIMEOUT_MS = 24 * 60 * 60_000
/** Lies beside the output, because that disk has room for the download. Importers remove what dead importers left there. */
const DOWNLOADS = '.longhaul-downloads'

/**
 * Creates a sealed policy directory from a model, or leaves nothing behind.
 * @throws LonghaulError `Config.*` for a source that is not available, with what to do; `Artifact.*`
 */
export async function importModel(input: ImportModelInput): Promise<ImportRecord> {
  const { source, output } = input
  if (typeof source === 'string') return runImport(input, resolve(source), null)
  const parent = join(dirname(resolve(output)), DOWNLOADS)
  const directory = join(parent, tempName())
  await makeDirectory(parent)
  await sweepTempFiles(parent, Date.now())
  await mkdir(directory)
  try {
    const { log, signal, onProgress } = input
    const place = await downloadModel({ model: source, directory, log, signal, onProgress })
    const file = source.file === null ? '' : `:${source.file}`
    return await runImport(input, place, `${source.name}@${source.revision}${file}`)
  } finally {
    await rm(directory, { recursive: true, force: true })
    // Another import may be writing into it.
    await rmdir(parent).catch(() => undefined)
  }
}

async function runImport(
  { output, chatFormat, tokenizer, python, environment, log, onProgress, signal }: ImportModelInput,
  place: string,
  origin: string | null,
): Promise<ImportRecord> {
  log('reading, writing and comparing the model: minutes for a large one')
  const { exitCode, stdout, tail } = await runCommand({
    command: python,
    args: [
      '-m',
      'longhaul_trainer',
      'import',
      place,
      resolve(output),
      ...(chatFormat === null ? [] : ['--chat-format', chatFormat]),
      ...(tokenizer === null ? [] : ['--tokenizer', resolve(tokenizer)]),
      ...(origin === null ? [] : ['--origin', origin]),
    ],
    env: environment,
    timeoutMs: TIMEOUT_MS,
    signal,
    onLine: (line) => {
      if (line.startsWith(PROGRESS)) onProgress?.(line.slice(PROGRESS.length))
    },
  })
  const said = stdout.trim().split('\n').at(-1) ?? ''
  if (exitCode === 0) return JSON.parse(said) as ImportRecord
  throw refusal({ exitCode, tail, output, details: origin === null ? {} : { source: origin } })
}

interface RefusalInput {
  exitCode: number | null
  tail: string
  output: string
  details: Record<string, string>
}

/** Maps the exit codes of `trainer/longhaul_trainer/failures.py`. */
function refusal({ exitCode, tail, output, details }: RefusalInput): LonghaulError {
  const [, said] = /^(?:input-unusable|output-unwritable|io-error): (.*)/m.exec(tail) ?? []
  const isFull = /no space left|quota/i.test(said ?? '')
  const message = isFull
    ? `Expected room for the policy on the disk of ${resolve(output)}: ${said}. Free space there, or name another --output; nothing was left`
    : said
  const code =
    message === undefined
      ? 'Trainer.Failed'
      : exitCode === 66
        ? 'Config.Invalid'
        : isFull
          ? 'Artifact.OutOfDisk'
          : exitCode === 73
            ? 'Config.Invalid'
            : 'Artifact.Unavailable'
  return new LonghaulError({
    code,
    message:
      message ??
      `Expected the trainer to import the model, but it ${exitCode === null ? 'was killed, by the system if memory ran out' : `exited with ${exitCode}`}: ${lastLine(tail).slice(-500)}`,
    details,
    // With its stack, for developers.
    cause: new Error(tail),
  })
}
