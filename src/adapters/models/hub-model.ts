import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { downloadFile, HubApiError, listFiles } from '@huggingface/hub'
import { LonghaulError } from '../../contracts/errors.ts'
import {
  connectHub,
  type Hub,
  type HubPlace,
  COMMIT,
  commitOf,
  RANGE_BYTES,
  readRange,
  silenceOf,
} from '../hub/requests.ts'

/** Files fetched beside the weights. Other files of a repository are not fetched, least of all pickles. */
export const TEXTS: ReadonlySet<string> = new Set([
  'config.json',
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
  'chat_template.jinja',
  'chat_template.json',
  'model.safetensors.index.json',
])

/** A model on a hub. `token` grants read access to the repository. */
export interface HubModel extends HubPlace {
  /** `owner/name` */
  name: string
  /** Forty hexadecimal digits. */
  revision: string
  /** A GGUF file of the repository to use instead of its safetensors; null for safetensors. */
  file: string | null
}

interface ListedFile {
  path: string
  bytes: number
  /** The repository's hash of the content: SHA-256 of a large file, otherwise the id of a Git blob. */
  oid: string
  isLarge: boolean
}

/**
 * Downloads the files that an import needs of a model into a directory, and checks each against the repository's own hash.
 * @returns the directory, or the GGUF file in it
 * @throws LonghaulError `Config.Invalid` for a revision that may move or a repository without suitable files; `Config.NotFound` for an
 * unknown model or revision, or one that the token may not read; `Artifact.Unavailable`, `Artifact.Corrupt`
 */
export async function downloadModel(input: {
  model: HubModel
  directory: string
  log: (line: string) => void
  /** Called with a description of the progress. */
  onProgress?: ((text: string) => void) | undefined
  signal: AbortSignal
}): Promise<string> {
  const { model, directory, log, onProgress, signal } = input
  const hub = connectHub(model)
  if (!COMMIT.test(model.revision)) throw await unpinned(hub, model)
  const listed = await explained(hub, model, () => list(hub, model))
  const chosen = model.file === null ? chooseWeights(listed, model) : [chooseFile(listed, model, model.file)]
  const total = chosen.reduce((sum, { bytes }) => sum + bytes, 0)
  let read = 0
  for (const [index, file] of chosen.entries()) {
    log(`${file.path}: ${Math.ceil(file.bytes / 1e6)} MB`)
    const onBytes = (count: number): void => {
      read += count
      onProgress?.(`downloading file ${index + 1} of ${chosen.length}, ${megabytes(read)} of ${megabytes(total)} MB`)
    }
    await explained(hub, model, () => download(hub, model, { file, directory, signal, onBytes }))
  }
  return model.file === null ? directory : join(directory, basename(model.file))
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1)
}

function repositoryOf(hub: Hub, { name, revision }: HubModel) {
  return { repo: { type: 'model' as const, name }, revision, hubUrl: hub.url, fetch: hub.fetch }
}

async function list(hub: Hub, model: HubModel): Promise<ListedFile[]> {
  const found: ListedFile[] = []
  for await (const { type, path, size, oid, lfs } of listFiles({ ...repositoryOf(hub, model), recursive: false })) {
    if (type !== 'file') continue
    found.push({ path, bytes: lfs?.size ?? size, oid: lfs?.oid ?? oid ?? '', isLarge: lfs !== undefined })
  }
  return found
}

function chooseWeights(listed: readonly ListedFile[], model: HubModel): ListedFile[] {
  const weights = listed.filter(({ path }) => path.endsWith('.safetensors'))
  if (weights.length > 0) return listed.filter((file) => TEXTS.has(file.path) || weights.includes(file))
  const gguf = listed.find(({ path }) => path.endsWith('.gguf'))
  const pickle = listed.find(({ path }) => /\.(?:bin|pt|pth|ckpt)$/.test(path))
  const fix =
    gguf !== undefined
      ? `it has GGUF files: name one with --file ${gguf.path}`
      : pickle !== undefined
        ? `it has ${pickle.path}, and a pickle runs code when it is read: take a revision or a copy of the model with safetensors`
        : 'it holds no weights'
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected safetensors in the model’s repository, ${fix}`,
    details: { model: model.name, revision: model.revision },
  })
}

function chooseFile(listed: readonly ListedFile[], model: HubModel, path: string): ListedFile {
  const found = listed.find((file) => file.path === path)
  if (found !== undefined) return found
  const others = listed.filter((file) => file.path.endsWith('.gguf')).map((file) => file.path)
  throw new LonghaulError({
    code: 'Config.NotFound',
    message: `Expected --file to name a GGUF file of the repository, but it has ${others.length === 0 ? 'none' : others.join(', ')}`,
    details: { model: model.name, revision: model.revision, file: path },
  })
}

async function download(
  hub: Hub,
  model: HubModel,
  {
    file,
    directory,
    signal,
    onBytes,
  }: { file: ListedFile; directory: string; signal: AbortSignal; onBytes: (count: number) => void },
): Promise<void> {
  const { path, bytes, oid, isLarge } = file
  const blob = await downloadFile({ ...repositoryOf(hub, model), path, xet: false })
  if (blob === null || blob.size !== bytes) {
    throw damaged(model, path, `${bytes} bytes, as the repository lists it`, `${blob?.size ?? 0} bytes`)
  }
  // Git's hash of a file that it stores itself.
  const hash = isLarge ? createHash('sha256') : createHash('sha1').update(`blob ${bytes}\0`)
  const target = await open(join(directory, basename(path)), 'wx')
  try {
    for (let start = 0; start < bytes; start += RANGE_BYTES) {
      signal.throwIfAborted()
      const range = { start, end: Math.min(start + RANGE_BYTES, bytes), path }
      const part = new Uint8Array(await readRange(blob, range))
      hash.update(part)
      await target.writeFile(part)
      onBytes(part.byteLength)
    }
  } finally {
    await target.close()
  }
  const found = hash.digest('hex')
  if (found !== oid) throw damaged(model, path, `a hash of ${oid}, as the repository lists it`, found)
}

function damaged({ name, revision }: HubModel, path: string, expected: string, found: string): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Corrupt',
    message: `Expected ${path} to have ${expected}, got ${found}: import again; if it stays so, a proxy on the way changes files`,
    details: { model: name, revision },
  })
}

async function unpinned(hub: Hub, model: HubModel): Promise<LonghaulError> {
  const branch = model.revision === '' ? 'main' : model.revision
  const commit = await explained(hub, model, () =>
    commitOf(hub, { kind: 'models', name: model.name, revision: branch }),
  )
  return new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected --revision to be a commit of 40 hexadecimal digits, because branches and tags move; ${branch} is now --revision ${commit}`,
    details: { model: model.name },
  })
}

async function explained<T>(hub: Hub, model: HubModel, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (cause) {
    if (cause instanceof LonghaulError || (cause instanceof Error && cause.name === 'AbortError')) throw cause
    const status = cause instanceof HubApiError ? cause.statusCode : null
    const { name, revision, token } = model
    const { code, message } = await explain(hub, model, status, cause)
    throw new LonghaulError({
      code,
      message,
      details: { model: name, revision, hub: hub.url, token: token.variable, ...(status === null ? {} : { status }) },
      cause,
    })
  }
}

async function explain(
  hub: Hub,
  model: HubModel,
  status: number | null,
  cause: unknown,
): Promise<{ code: 'Config.NotFound' | 'Artifact.Unavailable'; message: string }> {
  const { name, revision, token } = model
  if (status === 401 && token.value !== null) {
    return {
      code: 'Config.NotFound',
      message: `The hub refuses the token in ${token.variable}: put one that is valid and may read ${name} there`,
    }
  }
  if (status === 401) {
    return {
      code: 'Config.NotFound',
      message: `The hub shows no ${name} without a token: it is private or gated, or has another name. Set ${token.variable} to a token that may read it, or name another variable with --token-variable`,
    }
  }
  if (status === 403) {
    return {
      code: 'Config.NotFound',
      message: `The hub does not let this token read ${name}: accept the model’s terms on its page with the token’s account, or give the token leave to read it`,
    }
  }
  if (status === 404) {
    const newest = await commitOf(hub, { kind: 'models', name: model.name, revision: 'main' }).catch(() => null)
    return {
      code: 'Config.NotFound',
      message:
        newest === null
          ? `Expected a model named ${name} on the hub, but it has none`
          : `Expected ${name} to have the revision ${revision}, but the hub knows no such revision; main is --revision ${newest}`,
    }
  }
  const got = status === null ? silenceOf(cause) : `status ${status}`
  return {
    code: 'Artifact.Unavailable',
    message: `Expected the hub to answer, got ${got}: import again later, or name another hub with --hub-url`,
  }
}
