/**
 * Packages that take long to load (`openai` with `undici`: a quarter of a second and 40 MB) have one importer each (`undici` a second
 * one, for clusters), and are loaded
 * where a worker is composed: not by the command line, not by the package's program interface. So are those of S3. Imports are read from the text;
 * `import type` loads nothing, and `import()` only when it is called.
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '../..')
const DOOR = 'src/adapters/policy-server/openai-transport.ts'
const CLUSTER = 'src/adapters/kubernetes/cluster.ts'
/** The folders that may be between a composition and the door. */
const BEHIND_COMPOSITION = /^src\/adapters\/(policy-server|chat-endpoint|kubernetes)\//

const imports = new Map(
  readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .map((name) => `src/${name}`)
    .map((file) => [file, importsOf(file, readFileSync(join(root, file), 'utf8'))]),
)

function importsOf(file: string, text: string): string[] {
  return [...text.matchAll(/^(?:import|export)\s+(?!type\b)(?:[^'"]*?\sfrom\s+)?['"]([^'"]+)['"]/gm)].map(
    ([, name = '']) => (name.startsWith('.') ? relative(root, join(root, dirname(file), name)) : name),
  )
}

function reachedFrom(file: string, reached = new Set<string>()): Set<string> {
  if (reached.has(file)) return reached
  reached.add(file)
  for (const next of imports.get(file) ?? []) reachedFrom(next, reached)
  return reached
}

test('one module imports openai, and only it and the cluster access import undici', () => {
  const importers = [...imports].filter(([, names]) => names.some((name) => /^(?:openai|undici)(?:\/|$)/.test(name)))
  assert.deepEqual(importers.map(([file]) => file).toSorted(), [CLUSTER, DOOR])
})

test('neither the command line nor the program interface nor a workflow loads openai or undici', () => {
  for (const entry of ['src/cli/main.ts', 'src/client/index.ts', 'src/workflows/index.ts', 'src/stack/supervise.ts']) {
    const reached = reachedFrom(entry)
    assert.ok(reached.size > 5, `${entry} imports ${reached.size} modules: the search is broken`)
    assert.ok(!reached.has(DOOR) && !reached.has(CLUSTER), entry)
  }
})

test('only its command loads the viewer, and only when it runs', () => {
  for (const entry of ['src/cli/main.ts', 'src/client/index.ts', 'src/workflows/index.ts', 'src/stack/supervise.ts']) {
    const found = [...reachedFrom(entry)].filter((file) => file.startsWith('src/viewer/'))
    assert.deepEqual(found, [], entry)
  }
  assert.ok(reachedFrom('src/viewer/serve.ts').has('src/viewer/pages.ts'), 'the search is broken')
})

test('a command loads only its own module, because the table of commands imports none', () => {
  for (const entry of ['src/cli/main.ts', 'src/cli/program.ts']) {
    const found = [...reachedFrom(entry)].filter((file) => file.startsWith('src/cli/commands/'))
    assert.deepEqual(found, [], entry)
  }
})

test('commands that need no server load no Temporal client at their start', () => {
  for (const name of ['grade-log', 'report', 'view', 'ledger', 'export', 'recipe', 'completion']) {
    const found = [...reachedFrom(`src/cli/commands/${name}.ts`)].filter((file) => file.startsWith('src/client/'))
    assert.deepEqual(found, [], name)
  }
  assert.ok(reachedFrom('src/cli/commands/train.ts').has('src/client/index.ts'), 'the search is broken')
})

test('only modules of the workers lead to openai and undici', () => {
  const ways = [...imports.keys()].filter((file) => {
    const reached = reachedFrom(file)
    return !BEHIND_COMPOSITION.test(file) && (reached.has(DOOR) || reached.has(CLUSTER))
  })
  assert.ok(ways.includes('src/workers/connect.ts'))
  assert.deepEqual(
    ways.filter((file) => !file.startsWith('src/workers/')),
    [],
  )
})

test('the search finds imports of all forms and ignores types', () => {
  const text = `import { a } from 'a'\nimport 'b'\nexport * from './c.ts'\nimport {\n  d,\n} from '../d.ts'\nimport type { E } from 'e'\n`
  assert.deepEqual(importsOf('src/x/y.ts', text), ['a', 'b', 'src/x/c.ts', 'src/d.ts'])
})

test('the packages of S3 have one importer each, which loads only when a bucket is configured', () => {
  const doors = { aws4fetch: 's3-requests.ts', '@aws-sdk/credential-provider-node': 's3-credentials.ts' }
  for (const [name, file] of Object.entries(doors)) {
    const door = `src/adapters/artifacts/s3/${file}`
    assert.deepEqual(
      [...imports].filter(([, names]) => names.includes(name)).map(([importer]) => importer),
      [door],
    )
    const loaders = [...imports.keys()].filter((one) => one !== door && reachedFrom(one).has(door))
    assert.deepEqual(
      loaders.filter((one) => !one.startsWith('src/adapters/artifacts/s3/')),
      [],
    )
  }
  assert.ok(reachedFrom('src/workers/connect.ts').has('src/adapters/artifacts/open-store.ts'), 'nothing was searched')
})

test('the packages of OpenTelemetry have one importer, which loads only when traces are on', () => {
  const door = 'src/platform/export-traces.ts'
  const importers = [...imports].filter(([, names]) => names.some((name) => name.startsWith('@opentelemetry/')))
  assert.deepEqual(
    importers.map(([importer]) => importer),
    [door],
  )
  const loaders = [...imports.keys()].filter((one) => one !== door && reachedFrom(one).has(door))
  assert.deepEqual(loaders, [])
  assert.ok(reachedFrom('src/client/index.ts').has('src/platform/traces.ts'), 'nothing was searched')
})
