/**
 * A published figure names command, date, commit, machine and versions, and says where it is printed that the code has changed since
 * it was measured. Code may change without a measurement of three hours; a figure may not pass for one of today's code.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { figuresPage, provenanceOf } from '../../bench/support/figures-page.ts'
import { codeLines } from '../../bench/support/code-lines.ts'
import { codeHash, codeHashAt, MEASURED } from '../../bench/support/measured-code.ts'
import { versions } from '../../bench/support/versions.ts'

const root = join(import.meta.dirname, '../..')

test('every result is measured by a command, and every command has its result', () => {
  const files = readdirSync(join(root, 'bench/results'))
    .filter((name) => name.endsWith('.json') && name !== 'adopted.json')
    .map((name) => name.slice(0, -'.json'.length))
  assert.deepEqual(files.toSorted(), Object.keys(MEASURED).toSorted())
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  for (const [name, { command, sources }] of Object.entries(MEASURED)) {
    const [, script = ''] = /^npm run ([a-z:-]+)/.exec(command) ?? []
    const [, program = ''] = /^python (\S+)/.exec(command) ?? []
    const isThere = script === '' ? program !== '' && existsSync(join(root, program)) : Object.hasOwn(scripts, script)
    assert.ok(isThere, `${name}: nothing is run by ${command}`)
    for (const source of sources) assert.ok(existsSync(join(root, source)), `${name}: ${source} is not there`)
  }
})

test('every result has its date, its commit and the hash of the measured files', () => {
  for (const name of Object.keys(MEASURED)) {
    const { date, commit, codeHash: measured } = provenanceOf(name)
    assert.match(date, /^20\d\d-\d\d-\d\d/, name)
    assert.match(commit, /^[0-9a-f]{40}$/, name)
    assert.match(measured, /^[0-9a-f]{64}$/, name)
  }
})

test('docs/figures.md equals the output of npm run figures for the results and today’s code', () => {
  assert.equal(readFileSync(join(root, 'docs/figures.md'), 'utf8'), figuresPage())
})

test('the hash changes with a source file and ignores a test', () => {
  const whole = codeHash(['src/domain'])
  assert.notEqual(codeHash(['src/domain/ledger/ledger.ts']), whole)
  assert.equal(codeHash(['src/domain', 'src/domain/ledger/ledger.test.ts']), whole)
  assert.equal(codeHash(['src/domain', 'src/domain/ledger/ledger.ts']), whole, 'a file that is named twice counts once')
})

test('a bench stores the inputs of its figures', () => {
  const { provenance } = versions()
  const { cores, processor, memoryGiB, kernel } = provenance.machine
  assert.ok(cores > 0 && processor !== '' && memoryGiB > 0 && kernel !== '')
  assert.match(provenance.date, /^\d{4}-\d\d-\d\dT/)
  assert.equal(typeof provenance.dirty, 'boolean')
})

test('the hash of a commit equals the hash of its files', () => {
  const head = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim()
  const isClean = execFileSync('git', ['status', '--porcelain', '--', 'src'], { cwd: root, encoding: 'utf8' }) === ''
  for (const sources of [['src/domain'], ['src/scaffold', 'src/domain/ledger/ledger.ts'], ['recipes', 'schemas']]) {
    if (isClean) assert.equal(codeHashAt(head, sources), codeHash(sources))
    assert.notEqual(codeHashAt(head, sources), codeHashAt(head, sources.slice(1)))
  }
})

test('a comment or blank line is no code; text beside one, and text that resembles one in a line, is', () => {
  const code = [
    'const a = 1',
    "const url = 'https://host' /* no */",
    'const glob = `src/**/*.ts`',
    'f(a) // here',
  ].join('\n')
  const told = `/** What
 * it is.
 */
const a = 1

// Why.
const url = 'https://host' /* no */
/* one */
  /**
   * Another, with a line that is code in it: const b = 2
   */
const glob = \`src/**/*.ts\`
f(a) // here`
  assert.equal(codeLines(told), code)
  for (const [from, to] of [
    ['= 1', '= 2'],
    ['/* no */', '/* on */'],
    ['// here', '// there'],
    ['f(a)', '*f(a)'],
  ] as const) {
    assert.notEqual(codeLines(told.replace(from, to)), code, from)
  }
  assert.equal(codeLines('/* a */ f()\n/* b\n*/ g()'), '/* a */ f()\n*/ g()')
})
