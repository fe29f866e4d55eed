/** A file of its own needs two importers, a test, or 60 lines: docs/decisions/2026-11-22-rooms-by-purpose.md. All others are listed here. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '../..')
const LINES = 60

const REASONS: Readonly<Record<string, string>> = {
  'src/activities/grading/pin-files.ts': 'a rule of its own, beside the grading that calls it',
  'src/adapters/engines/keep-engines.ts': 'a process of its own',
  'src/adapters/parsing/parse-thread.ts': 'a thread of its own',
  'src/adapters/recipes/write-schema.ts': 'a program that the build calls',
  'src/adapters/trainer-job/launchers/create-launcher.ts': 'the choice among the files beside it',
  'src/client/examples.ts': 'what the documentation shows, compiled',
  'src/client/read-evaluation.ts': 'one call of the package’s interface',
  'src/platform/failure-converter.ts': 'the SDK loads it by its path',
  'src/platform/well-formed-failures.ts': 'the SDK loads it by its path',
  'src/stack/doctor/kubernetes-checks.ts': 'one file for each group of checks',
  'src/stack/doctor/runtime-checks.ts': 'one file for each group of checks',
  'src/workflows/query-interceptors.ts': 'the bundler loads it by its path',
  'src/workflows/start-interceptors.ts': 'the bundler loads it by its path',
  'src/stack/postgres/prepare-database.ts': 'joined with schema.ts it would import what imports it',
  'src/workflows/read-evaluation.ts': 'one file for each workflow',
  'src/workflows/watch.ts': 'one file for each workflow',
}
/** One file for each command, log format and grading profile, however small; types have no code. */
const ROOMS = /^src\/(?:cli\/commands|grading\/(?:parsers|profiles))\/|\.(?:types|schema)\.ts$/

const files = ['src', 'viewer', 'bin', 'scripts', 'test', 'bench', 'infra', 'policies'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(?:ts|tsx|mjs)$/.test(name) && !name.includes('node_modules'))
    .map((name) => `${folder}/${name}`),
)
const texts = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]))

/** Of a static or a dynamic import, and of what is started by its path. */
function importsOf(file: string, text: string): string[] {
  return [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'|new URL\(\s*['`](\.[^'`]+)['`]/g)].map(
    ([, from, path]) => relative(root, join(root, dirname(file), from ?? path ?? '')),
  )
}

function isTest(file: string): boolean {
  return /\.test\.ts$|^(?:test|bench|policies)\//.test(file)
}

/** Files below the limit with one importer at most, and no test that imports them. */
function smallFiles(all: ReadonlyMap<string, string>): string[] {
  const importers = new Map<string, string[]>()
  for (const [file, text] of all)
    for (const target of importsOf(file, text)) importers.set(target, [...(importers.get(target) ?? []), file])
  return [...all]
    .filter(([file, text]) => {
      const from = importers.get(file) ?? []
      const isSmall = text.split('\n').length <= LINES && new Set(from).size <= 1 && !from.some(isTest)
      return file.startsWith('src/') && !isTest(file) && isSmall
    })
    .map(([file]) => file)
}

test('a small file with one importer and no test has a reason', () => {
  const found = smallFiles(texts).filter((file) => !ROOMS.test(file))
  assert.deepEqual(
    found.filter((file) => REASONS[file] === undefined),
    [],
    'join each with its importer, test it, or write its reason into REASONS',
  )
})

test('every reason is for a file that still needs one', () => {
  const found = new Set(smallFiles(texts))
  assert.deepEqual(
    Object.keys(REASONS).filter((file) => !found.has(file)),
    [],
  )
})

test('the search counts importers of all forms, and tests', () => {
  const all = new Map([
    ['src/a/crumb.ts', 'export const one = 1\n'],
    ['src/a/shared.ts', 'export const two = 2\n'],
    ['src/a/tested.ts', 'export const three = 3\n'],
    ['src/a/started.ts', 'export {}\n'],
    ['src/a/long.ts', '\n'.repeat(LINES)],
    ['src/b.ts', `import { one } from './a/crumb.ts'\nimport { two } from './a/shared.ts'\n${'\n'.repeat(LINES)}`],
    ['src/c.ts', `await import('./a/shared.ts')\nnew URL('./a/started.ts', import.meta.url)\n${'\n'.repeat(LINES)}`],
    ['bin/d.mjs', `new URL("./x")\nimport('../src/a/started.ts')\n`],
    ['src/a/tested.test.ts', `import { three } from './tested.ts'\n`],
  ])
  assert.deepEqual(smallFiles(all), ['src/a/crumb.ts'])
})
