#!/usr/bin/env node
// The `longhaul` command. Plain JavaScript for any Node >= 20; re-executes itself under Node 24 where the running one is older.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

import { keepCompiledCode } from '../scripts/compile-cache.mjs'
import { findNode24, missingNodeMessage, WANTED_MAJOR } from '../scripts/node-24.mjs'

const self = fileURLToPath(import.meta.url)
const root = dirname(dirname(self))
// A checkout runs its sources, an installed package what was built from them.
const source = join(root, 'src', 'cli', 'main.ts')
const main = existsSync(source) ? source : join(root, 'dist', 'cli', 'main.js')

keepCompiledCode()
if (Number.parseInt(process.versions.node, 10) >= WANTED_MAJOR) {
  await import(pathToFileURL(main).href)
} else {
  const node = findNode24({ from: join(root, 'package.json') })
  if (node === undefined) {
    console.error(missingNodeMessage())
    process.exit(2)
  }
  const { runInOurPlace } = await import('../scripts/pass-through.mjs')
  runInOurPlace({ command: node, args: [self, ...process.argv.slice(2)] })
}
