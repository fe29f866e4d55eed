import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import { commitIter, type CommitOperation, createBranch, createRepo, HubApiError, listFiles } from '@huggingface/hub'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { type Hub, type HubPlace, connectHub, createSender, silenceOf } from '../hub/requests.ts'
import { isOfModel, megabytes, type PublishedFile } from './policy-files.ts'

export interface PublishTarget extends HubPlace {
  /** `owner/name` */
  name: string
  branch: string
  /** Whether a new repository is created private. An existing one must already be private then. */
  isPrivate: boolean
  /** Whether a model of another policy may be overwritten. */
  replaces: boolean
}

/** `longhaul.json` of a repository, which states the policy it holds. */
export interface PublishRecord {
  schema: 'longhaul.published/1'
  policy: string
  manifest_sha256: string
  /** A LoRA policy can be published as adapters alone. */
  kind: 'model' | 'adapter'
  files: Record<string, string>
}

export const RECORD = 'longhaul.json'

export interface PublishInput {
  target: PublishTarget
  record: PublishRecord
  /** Includes the record. */
  files: readonly PublishedFile[]
  /** A dry run only asks the hub what would change. */
  isDry: boolean
  log: (line: string) => void
  onProgress: (text: string) => void
  signal: AbortSignal
}

export interface PublishResult {
  changed: boolean
  /** Whether the repository was created, or in a dry run would be. */
  created: boolean
  /** The branch's commit; null if a dry run found no branch. */
  commit: string | null
  /** Files that were committed, or in a dry run would be. */
  written: string[]
  removed: string[]
}

/** The current content of a branch. */
interface Found {
  exists: boolean
  isPrivate: boolean | null
  /** Null if the branch does not exist. */
  head: string | null
  /** The hub's hash by path: SHA-256 of a large file, otherwise the id of a Git blob. */
  entries: Map<string, { oid: string; isLarge: boolean }>
  record: PublishRecord | null
}

/**
 * Makes a repository of a hub hold exactly these files of a model, in one commit or none. A retry does not send again the large files
 * that arrived before an interruption.
 * @throws LonghaulError `Config.*` if the hub refuses or the repository holds another model, `Artifact.*`
 */
export async function publishModel(input: PublishInput): Promise<PublishResult> {
  const { target, record, files, isDry, log, signal } = input
  let sent = 0
  let total = 0
  const send = createSender({
    signal,
    onBytes: (count) => {
      sent += count
      input.onProgress(`sending the weights, ${megabytes(sent)} of at most ${megabytes(total)} MB`)
    },
  })
  const hub = connectHub(target, send)
  return explained(hub, target, signal, async () => {
    const found = await look(hub, target)
    requireRoom(target, found, record)
    const written = await differing(found, files)
    const removed = [...found.entries.keys()].filter(
      (path) => isOfModel(path) && !files.some((file) => file.path === path),
    )
    const plan = { written: written.map(({ path }) => path), removed, created: !found.exists }
    if (written.length + removed.length === 0) return { changed: false, commit: found.head, ...plan }
    if (isDry) return { changed: true, commit: found.head, ...plan }
    total = written.reduce((sum, file) => sum + ('file' in file.content ? file.bytes : 0), 0)
    const parent = await makeRoom(hub, target, found)
    log(`${written.length} files to ${target.name}, ${megabytes(total)} MB of them weights`)
    const commit = await commitFiles(hub, { ...input, files: written, removed, parent })
    await requireArrived(hub, target, commit, files)
    return { changed: true, commit, ...plan }
  })
}

function repositoryOf(hub: Hub, { name }: PublishTarget) {
  return { repo: { type: 'model' as const, name }, hubUrl: hub.url, fetch: hub.fetch }
}

async function look(hub: Hub, target: PublishTarget): Promise<Found> {
  const { name, branch } = target
  const absent: Found = { exists: false, isPrivate: null, head: null, entries: new Map(), record: null }
  const asked = await ask<{ sha: string; private?: boolean }>(
    hub,
    `/api/models/${name}/revision/${encodeURIComponent(branch)}`,
  )
  if (asked === null) {
    const repository = await ask<{ private?: boolean }>(hub, `/api/models/${name}`)
    return repository === null ? absent : { ...absent, exists: true, isPrivate: repository.private === true }
  }
  const head = asked.sha
  const entries = await listTree(hub, target, head)
  const record = entries.has(RECORD) ? await readRecord(hub, `/${name}/resolve/${head}/${RECORD}`) : null
  return { exists: true, isPrivate: asked.private === true, head, entries, record }
}

/** Returns null if a file of that name belongs to another program. */
async function readRecord(hub: Hub, path: string): Promise<PublishRecord | null> {
  try {
    const record = await ask<PublishRecord | null>(hub, path)
    return record?.schema === 'longhaul.published/1' ? record : null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

/** Requests JSON; returns null if the resource does not exist. @throws HubApiError for other answers of the hub */
async function ask<T>(hub: Hub, path: string): Promise<T | null> {
  const response = await hub.fetch(`${hub.url}${path}`)
  if (response.ok) return (await response.json()) as T
  await response.body?.cancel()
  if (response.status === 404) return null
  throw new HubApiError(`${hub.url}${path}`, response.status)
}

async function listTree(hub: Hub, target: PublishTarget, revision: string): Promise<Found['entries']> {
  const entries: Found['entries'] = new Map()
  for await (const entry of listFiles({ ...repositoryOf(hub, target), revision, recursive: false })) {
    if (entry.type !== 'file') continue
    entries.set(entry.path, { oid: entry.lfs?.oid ?? entry.oid ?? '', isLarge: entry.lfs !== undefined })
  }
  return entries
}

/** Refuses to overwrite a model of another program or another policy unless the caller asks for it. */
function requireRoom({ name, branch, isPrivate, replaces }: PublishTarget, found: Found, record: PublishRecord): void {
  if (isPrivate && found.isPrivate === false) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected ${name} to be private, as --private asks, but it is public: make it private in its settings, publish under another name, or leave out --private`,
    })
  }
  const isSame = found.record?.manifest_sha256 === record.manifest_sha256 && found.record.kind === record.kind
  if (replaces || isSame) return
  const held = found.record?.policy
  if (held === undefined && ![...found.entries.keys()].some(isModelFile)) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected ${name} to hold ${record.policy} or no model, but its branch ${branch} holds ${held === undefined ? 'a model that was not published by this command' : `${found.record?.kind === 'adapter' ? 'adapters of ' : ''}${quoted(held)}`}: name another repository or --revision, or replace it with --replace`,
  })
}

function isModelFile(path: string): boolean {
  return isOfModel(path) || /\.(?:safetensors|gguf|bin|pt|pth)$/.test(path)
}

async function differing({ entries }: Found, files: readonly PublishedFile[]): Promise<PublishedFile[]> {
  const others: PublishedFile[] = []
  for (const file of files) if (!(await isThere(entries, file))) others.push(file)
  return others
}

async function isThere(entries: Found['entries'], { path, sha256, content }: PublishedFile): Promise<boolean> {
  const entry = entries.get(path)
  if (entry === undefined || entry.isLarge) return entry?.oid === sha256
  const bytes = 'text' in content ? Buffer.from(content.text) : await readFile(content.file)
  return entry.oid === createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex')
}

/** Creates repository and branch if they are missing. @returns the commit to build on */
async function makeRoom(hub: Hub, target: PublishTarget, { exists, head }: Found): Promise<string> {
  if (head !== null) return head
  const { name, branch, isPrivate } = target
  const place = repositoryOf(hub, target)
  if (!exists) {
    // The client's type requires a token; ours is added to each request to the hub.
    const options = { ...place, ...(isPrivate ? { visibility: 'private' as const } : {}) }
    await createRepo(options as Parameters<typeof createRepo>[0]).catch((error: unknown) => {
      // The answer to an earlier attempt was lost, so the repository already exists.
      if (!(error instanceof HubApiError && error.statusCode === 409)) throw error
    })
  }
  // Created empty, without the files of `main`, because a policy has its own branch.
  if (branch !== 'main') await createBranch({ ...place, branch, empty: true })
  const made = await look(hub, target)
  if (made.head !== null) return made.head
  throw new LonghaulError({
    code: 'Artifact.Unavailable',
    message: `Expected the hub to show the branch ${branch} of ${name} that it made: publish again`,
  })
}

interface CommitInput extends PublishInput {
  removed: readonly string[]
  parent: string
}

async function commitFiles(hub: Hub, input: CommitInput): Promise<string> {
  const { target, record, files, removed, parent, onProgress, signal } = input
  const operations: CommitOperation[] = [
    ...files.map(({ path, content }) => ({
      operation: 'addOrUpdate' as const,
      path,
      content: 'text' in content ? new Blob([content.text]) : pathToFileURL(content.file),
    })),
    ...removed.map((path) => ({ operation: 'delete' as const, path })),
  ]
  const steps = commitIter({
    ...repositoryOf(hub, target),
    branch: target.branch,
    title: `Publish ${record.policy}`,
    description: `SHA-256 of the manifest: ${record.manifest_sha256}`,
    operations,
    parentCommit: parent,
    useXet: false,
    abortSignal: signal,
  })
  let isCommitting = false
  try {
    for (let step = await steps.next(); ; step = await steps.next()) {
      if (step.done === true) return step.value?.commit.oid ?? ''
      const { value } = step
      if (value.event === 'phase') {
        isCommitting = value.phase === 'committing'
        if (isCommitting) onProgress('committing')
      } else if (value.state === 'hashing') {
        onProgress(`comparing with what the hub has, ${value.path}: ${Math.round(100 * value.progress)} %`)
      }
    }
  } catch (error) {
    if (!isCommitting || error instanceof HubApiError || signal.aborted) throw error
    // The answer was lost, which does not tell whether the commit succeeded.
    const found = await look(hub, target)
    if (found.head !== null && (await differing(found, input.files)).length === 0) return found.head
    throw error
  }
}

/** Verifies that the commit holds the files. @throws LonghaulError `Artifact.Corrupt` for a commit with other bytes */
async function requireArrived(
  hub: Hub,
  target: PublishTarget,
  commit: string,
  files: readonly PublishedFile[],
): Promise<void> {
  const entries = await listTree(hub, target, commit)
  for (const file of files) {
    if (await isThere(entries, file)) continue
    throw new LonghaulError({
      code: 'Artifact.Corrupt',
      message: `Expected the hub to hold ${file.path} as it was sent, but its hash differs: publish again; if the hash still differs, a proxy on the way changes files`,
      details: { repository: target.name, commit },
    })
  }
}

async function explained<T>(hub: Hub, target: PublishTarget, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    if (isLonghaulError(cause) || signal.aborted) throw cause
    const status = cause instanceof HubApiError ? cause.statusCode : null
    const isHub =
      cause instanceof HubApiError && (cause.url === '' || new URL(cause.url).origin === new URL(hub.url).origin)
    const { code, message } = explain(target, hub, { status: isHub ? status : null, cause })
    throw new LonghaulError({
      code,
      message,
      details: { repository: target.name, hub: hub.url, ...(status === null ? {} : { status }) },
      // The cause of a failed upload contains a signed address.
      ...(status !== null && !isHub ? {} : { cause }),
    })
  }
}

function explain(
  { name, token, branch }: PublishTarget,
  hub: Hub,
  { status, cause }: { status: number | null; cause: unknown },
): { code: 'Config.Invalid' | 'Config.NotFound' | 'Artifact.Unavailable'; message: string } {
  switch (status) {
    case 401:
      return {
        code: 'Config.NotFound',
        message:
          token.value === null
            ? `The hub shows no ${name} without a token: set ${token.variable} to one that may write to it`
            : `The hub refuses the token in ${token.variable}: put one that is valid and may write to ${name} there`,
      }
    case 403:
      return {
        code: 'Config.NotFound',
        message: `The hub does not let this token write to ${name}: give it the right to write there, or publish under a name of its account`,
      }
    case 404:
      return {
        code: 'Config.NotFound',
        message: `The hub knows no owner or repository ${name} that this token may write to`,
      }
    case 412:
      return {
        code: 'Artifact.Unavailable',
        message: `Expected ${name} to stay unchanged, but its branch ${branch} got another commit meanwhile: publish again`,
      }
    case 400:
    case 413:
    case 422:
      return { code: 'Config.Invalid', message: `The hub does not take this model: ${saidBy(cause)}` }
    default:
      return {
        code: 'Artifact.Unavailable',
        message: `Expected ${status === null ? 'the hub and its storage' : `the hub ${hub.url}`} to take the model, got ${status === null ? reasonOf(cause) : `status ${status}: ${saidBy(cause)}`}. Nothing was committed; publish again: weights that arrived whole are not sent again`,
      }
  }
}

function saidBy(cause: unknown): string {
  const { error, message } = (cause instanceof HubApiError ? cause.data : undefined) ?? {}
  const said = typeof error === 'string' ? error : message
  return typeof said === 'string' && said !== '' ? quoted(said) : 'it does not say why'
}

function reasonOf(cause: unknown): string {
  return cause instanceof HubApiError ? `status ${cause.statusCode} from the storage` : silenceOf(cause)
}

/** Quotes the hub's own words with control characters escaped. */
function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 300))
}
