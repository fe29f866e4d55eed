/** Loads the built pages: from beside this file in the package, from the cache in a checkout. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { LonghaulError } from '../contracts/errors.ts'
import { requireCommand } from '../platform/run-command.ts'

export const ASSETS = {
  'index.html': 'text/html; charset=utf-8',
  'start.js': 'text/javascript; charset=utf-8',
  'viewer.js': 'text/javascript; charset=utf-8',
  'viewer.css': 'text/css; charset=utf-8',
} as const
export type AssetName = keyof typeof ASSETS

export type Assets = Readonly<Record<AssetName, Buffer>>

/** @throws LonghaulError `Config.NotFound` if there are neither pages nor sources to build them from */
export async function loadAssets(): Promise<Assets> {
  const folder = await assetsFolder()
  const read = (name: AssetName): Promise<Buffer> => readFile(join(folder, name))
  const names = Object.keys(ASSETS) as AssetName[]
  const files = await Promise.all(names.map(async (name) => [name, await read(name)] as const))
  return Object.fromEntries(files) as Record<AssetName, Buffer>
}

async function assetsFolder(): Promise<string> {
  const packaged = join(import.meta.dirname, 'pages')
  if (existsSync(join(packaged, 'index.html'))) return packaged
  const script = join(import.meta.dirname, '../../scripts/build-viewer.mjs')
  if (!existsSync(script)) {
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: `Expected the viewer's pages in ${packaged}; this installation of longhaul is not whole: install it again`,
    })
  }
  const { stdout } = await requireCommand({
    what: 'building the viewer’s pages',
    command: process.execPath,
    args: [script],
    timeoutMs: 300_000,
  })
  return stdout.trim()
}

/** Security headers of pages, any text of which an agent may have written. */

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  // No string becomes markup: an assignment to innerHTML throws.
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
]

export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': POLICY.join('; '),
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()',
  'cache-control': 'no-store',
}

/** For pages opened as files: 'self' does not cover files in every browser, and the data are scripts beside the page. */
export const FILE_POLICY = [
  "default-src 'none'",
  "script-src 'self' file:",
  "style-src 'self' file:",
  "base-uri 'none'",
  "form-action 'none'",
].join('; ')
