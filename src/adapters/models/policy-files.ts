/** Selects what is published of a sealed policy: the model's files, each verified against the manifest, without anything that names
 *  this machine. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { lstat, open, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { compareText } from '../../domain/hash-order.ts'
import { errnoOf } from '../../platform/files.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { committedManifest } from '../trainer-job/job/policy-directory.ts'
import { TEXTS } from './hub-model.ts'
import { runCommand } from '../../platform/run-command.ts'

export interface PublishedFile {
  /** Path in the repository. */
  path: string
  bytes: number
  sha256: string
  content: { text: string } | { file: string }
}

export interface PolicyFiles {
  files: PublishedFile[]
  /** The data type in which the trainer exported the weights; null if the manifest does not say. */
  dtype: string | null
  configJson: string
}

export interface ReadPolicyFilesInput {
  directory: string
  manifestSha256: string
  /** Texts that must not be published, such as the token. */
  secrets: readonly string[]
  onProgress: (text: string) => void
  signal: AbortSignal
}

/** Log-probabilities for the pipeline's own checks. An importer would mistake them for weights. */
const OWN_TENSORS = new Set(['canary.safetensors', 'window.safetensors'])
/** transformers writes the path a model was loaded from into these keys, and reads neither. */
const ORIGIN_KEYS = new Set(['_name_or_path', 'name_or_path'])
const PATH = /^(?:file:\/\/|~?\/[^/\s]+\/|[A-Za-z]:\\)[^\n]*$/
const TOKEN = /\bhf_[A-Za-z0-9]{20,}\b/
const INDEX = 'model.safetensors.index.json'
/** A shorter secret may occur in any text by chance. */
const LEAST_SECRET = 8
/** A longer safetensors header describes no model. */
const MOST_HEADER_BYTES = 100 * 2 ** 20

/**
 * Reads and verifies the files of a policy for publication.
 * @throws LonghaulError `Artifact.Missing` if there is no directory, `Artifact.Corrupt` if it deviates from its manifest,
 * `Config.Invalid` for a text that names a path of this machine or a token
 */
export async function readPolicyFiles(input: ReadPolicyFilesInput): Promise<PolicyFiles> {
  const { directory, manifestSha256, onProgress, signal } = input
  const secrets = input.secrets.filter((secret) => secret.length >= LEAST_SECRET)
  const manifest = await requireManifest(directory, manifestSha256)
  const listed = manifest.files.filter(({ path }) => isOfModel(path)).toSorted((a, b) => compareText(a.path, b.path))
  const total = listed.reduce((sum, { bytes }) => sum + bytes, 0)
  let read = 0
  const files: PublishedFile[] = []
  for (const { path, bytes, sha256 } of listed) {
    const file = join(directory, path)
    const found = await hashOf(file, signal, (count) => {
      read += count
      onProgress(`checking the weights, ${megabytes(read)} of ${megabytes(total)} MB`)
    })
    if (found !== sha256)
      throw corrupt(file, `a hash of ${sha256}, as its manifest says, got ${found ?? 'no such file'}`)
    files.push(await withoutPlaces({ path, bytes, sha256, content: { file } }, secrets))
  }
  requireWhole(directory, files)
  const configJson = await readFile(join(directory, 'config.json'), 'utf8')
  return { files, dtype: typeof manifest.dtype === 'string' ? manifest.dtype : null, configJson }
}

/** Selects weights and texts of the model. Other files of a sealed directory are not published: an attempt's files name hosts and
 *  paths. */
export function isOfModel(path: string): boolean {
  return (
    TEXTS.has(path) || path === 'adapter_config.json' || (/^[\w.-]+\.safetensors$/.test(path) && !OWN_TENSORS.has(path))
  )
}

interface Manifest {
  dtype?: unknown
  files: { path: string; bytes: number; sha256: string }[]
}

async function requireManifest(directory: string, manifestSha256: string): Promise<Manifest> {
  const found = await committedManifest(directory)
  if (found === null) {
    throw new LonghaulError({
      code: 'Artifact.Missing',
      message: 'Expected the policy’s sealed directory on this machine: run this where the artifact store is',
      details: { directory },
    })
  }
  if (found.sha256 === manifestSha256) return found.manifest as unknown as Manifest
  throw corrupt(
    join(directory, 'MANIFEST.json'),
    `a hash of ${manifestSha256}, as its record says, got ${found.sha256}`,
  )
}

async function hashOf(path: string, signal: AbortSignal, onBytes: (count: number) => void): Promise<string | null> {
  const found = await lstat(path).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return null
    throw error
  })
  if (found?.isFile() !== true) return null
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path, { signal, highWaterMark: 2 ** 20 }) as AsyncIterable<Buffer>) {
    hash.update(chunk)
    onBytes(chunk.length)
  }
  return hash.digest('hex')
}

function requireWhole(directory: string, files: readonly PublishedFile[]): void {
  const names = new Set(files.map(({ path }) => path))
  const missing = ['config.json', 'tokenizer.json'].find((name) => !names.has(name))
  const hasWeights = files.some(({ path }) => path.endsWith('.safetensors'))
  if (missing === undefined && hasWeights) return
  throw corrupt(directory, `config.json, tokenizer.json and weights, found no ${missing ?? 'weights'}`)
}

/** Returns the file itself, or its text without the origin paths that transformers writes. */
async function withoutPlaces(
  file: PublishedFile & { content: { file: string } },
  secrets: readonly string[],
): Promise<PublishedFile> {
  const { path, content } = file
  if (path.endsWith('.safetensors')) {
    requirePublic(path, await metadataOf(content.file), secrets)
    return file
  }
  const text = await readFile(content.file, 'utf8')
  if (secrets.some((secret) => text.includes(secret)) || TOKEN.test(text)) throw holdsToken(path)
  if (!path.endsWith('.json') || path === INDEX || path === 'tokenizer.json' || path === 'vocab.json') return file
  const value: unknown = parse(text, content.file)
  if (typeof value !== 'object' || value === null) return file
  const entries = Object.entries(value)
  const kept = entries.filter(([key, one]) => !(ORIGIN_KEYS.has(key) && typeof one === 'string' && PATH.test(one)))
  requirePublic(path, Object.fromEntries(kept), secrets)
  if (kept.length === entries.length) return file
  const changed = `${JSON.stringify(Object.fromEntries(kept), null, 2)}\n`
  return { path, bytes: Buffer.byteLength(changed), sha256: sha256Hex(changed), content: { text: changed } }
}

/** Reads the metadata texts that a writer of safetensors adds to the tensors. */
async function metadataOf(path: string): Promise<unknown> {
  const file = await open(path, 'r')
  try {
    const head = Buffer.alloc(8)
    const { bytesRead } = await file.read(head, 0, 8, 0)
    const length = bytesRead === 8 ? Number(head.readBigUInt64LE()) : Number.NaN
    if (!(length <= MOST_HEADER_BYTES)) throw corrupt(path, 'a header of safetensors')
    const header = Buffer.alloc(length)
    await file.read(header, 0, length, 8)
    return (parse(header.toString('utf8'), path) as { __metadata__?: unknown }).__metadata__ ?? {}
  } finally {
    await file.close()
  }
}

/** @throws LonghaulError `Config.Invalid` naming the first key whose value is a path or a token */
function requirePublic(path: string, value: unknown, secrets: readonly string[], key = ''): void {
  if (typeof value === 'string') {
    if (secrets.some((secret) => value.includes(secret)) || TOKEN.test(value)) throw holdsToken(path)
    if (!PATH.test(value)) return
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected no path of a machine in ${path}, found one in ${key}: make the policy anew from a model without it`,
      details: { file: path, key },
    })
  }
  if (typeof value !== 'object' || value === null) return
  for (const [name, one] of Object.entries(value))
    requirePublic(path, one, secrets, key === '' ? name : `${key}.${name}`)
}

function parse(text: string, path: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new LonghaulError({ code: 'Artifact.Corrupt', message: 'Expected JSON', details: { path }, cause })
  }
}

function holdsToken(path: string): LonghaulError {
  return new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected no token in ${path}, found one: withdraw it at the hub, and make the policy anew from a model without it`,
    details: { file: path },
  })
}

function corrupt(path: string, expected: string): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Corrupt',
    message: `Expected the policy to have ${expected}: nothing was published`,
    details: { path },
  })
}

export function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1)
}

export interface ReadAdapterFilesInput {
  /** Sealed directories on this machine. */
  checkpoint: string
  /** SHA-256 of the checkpoint's manifest; null if no record states it. */
  checkpointSha256: string | null
  base: string
  /** The model and revision under which others find the base. */
  origin: { model: string; revision: string }
  /** The directory to create. The caller removes it. */
  target: string
  /** A Python interpreter with the trainer's packages, and the environment it needs to import the trainer. */
  python: string
  environment: NodeJS.ProcessEnv
  signal: AbortSignal
}

/** The trainer compares every tensor of the base, read from disk. */
const TIMEOUT_MS = 4 * 60 * 60_000

/**
 * Returns the adapters of a checkpoint in PEFT's layout.
 * @throws LonghaulError `Config.Invalid` for a checkpoint without adapters of this base, `Artifact.Unavailable`, `Trainer.Failed`
 */
export async function readAdapterFiles(input: ReadAdapterFilesInput): Promise<PublishedFile[]> {
  const { checkpoint, checkpointSha256, base, origin, target, python, environment, signal } = input
  const { exitCode, stdout, tail } = await runCommand({
    command: python,
    args: [
      '-m',
      'longhaul_trainer',
      'adapter',
      checkpoint,
      base,
      target,
      '--base-name',
      origin.model,
      '--base-revision',
      origin.revision,
      ...(checkpointSha256 === null ? [] : ['--expect-sha256', checkpointSha256]),
    ],
    env: environment,
    timeoutMs: TIMEOUT_MS,
    signal,
  })
  if (exitCode !== 0) throw refusal(exitCode, tail)
  const hashes = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<string, string>
  return Promise.all(
    Object.entries(hashes).map(async ([path, sha256]) => {
      const file = join(target, path)
      return { path, bytes: (await stat(file)).size, sha256, content: { file } }
    }),
  )
}

/** Maps the exit codes of `trainer/longhaul_trainer/failures.py`. */
function refusal(exitCode: number | null, tail: string): LonghaulError {
  const [, message] = /^(?:input-unusable|output-unwritable|io-error): (.*)/m.exec(tail) ?? []
  return new LonghaulError({
    code: message === undefined ? 'Trainer.Failed' : exitCode === 66 ? 'Config.Invalid' : 'Artifact.Unavailable',
    message:
      message ?? `Expected the trainer to read the adapters, but it exited with ${exitCode}: ${tail.slice(-2000)}`,
  })
}
