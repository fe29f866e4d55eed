/** Where a stack's own Temporal stores its runs: chosen once and recorded in the stack's data directory. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { LonghaulError } from '../contracts/errors.ts'
import { readJson, writeFileAtomically } from '../platform/files.ts'
import { quoteAddress } from '../platform/quote-address.ts'
import type { StackPaths } from './paths.ts'
import { isSameDatabase, parseDatabaseUrl } from './postgres/database-address.ts'
import { clusterFolder } from './postgres/private-cluster.ts'

export type TemporalStore =
  /** The development server's file. */
  | { kind: 'development' }
  /** `url` null: a PostgreSQL that the stack starts and stops. A URL may contain a password. */
  | { kind: 'postgres'; url: string | null }

interface KeptStore {
  version: 1
  store: TemporalStore
  /** Server release whose schema the database has; null before it has one. */
  schema: string | null
}

/** Parses `--temporal`. @throws LonghaulError `Config.Invalid` */
export function parseTemporalStore(text: string): TemporalStore {
  if (text === 'development') return { kind: 'development' }
  if (text === 'postgres') return { kind: 'postgres', url: null }
  if (/^postgres(ql)?:/.test(text)) {
    parseDatabaseUrl(text)
    return { kind: 'postgres', url: text }
  }
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected --temporal to be development, postgres or postgres://USER@HOST:5432/DATABASE, got ${quoteAddress(text)}`,
  })
}

export async function readKeptStore(paths: StackPaths): Promise<KeptStore | null> {
  const kept = await readJson<KeptStore>(fileOf(paths))
  if (kept !== null) return kept
  // Earlier versions supported only the development server.
  const files = await databaseFiles(paths)
  return files.length === 0 ? null : { version: 1, store: { kind: 'development' }, schema: null }
}

export async function keepStore(paths: StackPaths, store: TemporalStore, schema: string | null): Promise<void> {
  const kept: KeptStore = { version: 1, store, schema }
  await writeFileAtomically(fileOf(paths), `${JSON.stringify(kept, null, 2)}\n`, 0o600)
}

/**
 * The existing store of the stack, or the requested one of a new stack. Rejects a request for another store: that would start empty, and
 * the stack's runs would look lost.
 * @throws LonghaulError `Config.Invalid`
 */
export async function chooseStore(paths: StackPaths, asked: TemporalStore | null): Promise<TemporalStore> {
  const kept = (await readKeptStore(paths))?.store ?? null
  if (kept === null) return asked ?? { kind: 'development' }
  if (asked === null) return kept
  if (!isSameStore(kept, asked)) throw await otherStore({ paths, kept, asked })
  // The requested URL may have a new password.
  return asked
}

function isSameStore(kept: TemporalStore, asked: TemporalStore): boolean {
  if (kept.kind !== 'postgres' || asked.kind !== 'postgres') return kept.kind === asked.kind
  if (kept.url === null || asked.url === null) return kept.url === asked.url
  return isSameDatabase(kept.url, asked.url)
}

interface OtherStoreInput {
  paths: StackPaths
  kept: TemporalStore
  asked: TemporalStore
}

async function otherStore({ paths, kept, asked }: OtherStoreInput): Promise<LonghaulError> {
  const own = kept.kind === 'development' ? await databaseFiles(paths) : kept.url === null ? [clusterFolder(paths)] : []
  const requested = asked.kind === 'development' ? 'development' : asked.url === null ? 'postgres' : 'postgres://…'
  return new LonghaulError({
    code: 'Config.Invalid',
    message: [
      `The stack "${paths.name}" keeps its runs in ${describeStore(paths, kept)}; with --temporal ${requested} it would start without them.`,
      'One of these helps:',
      '  - leave out --temporal: the stack keeps its store',
      `  - LONGHAUL_STACK=another longhaul up --temporal ${requested}: a second stack`,
      `  - once its open runs may end for good: longhaul down, then rm -r ${[...own, fileOf(paths)].join(' ')} (records in the artifact store stay)`,
    ].join('\n'),
  })
}

/** For operators, without passwords. */
export function describeStore(paths: StackPaths, store: TemporalStore): string {
  if (store.kind === 'development') return `the development server's file in ${paths.dataDir}`
  return store.url === null ? `its own PostgreSQL in ${clusterFolder(paths)}` : parseDatabaseUrl(store.url, {}).title
}

async function databaseFiles({ dataDir }: StackPaths): Promise<string[]> {
  const names = await readdir(dataDir).catch(() => [])
  return names.filter((name) => /^temporal-[\d.]+\.db$/.test(name)).map((name) => join(dataDir, name))
}

function fileOf({ dataDir }: StackPaths): string {
  return join(dataDir, 'temporal-store.json')
}
