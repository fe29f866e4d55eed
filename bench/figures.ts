/**
 * Prints the provenance of every published figure into `docs/figures.md`, and marks figures that were measured on other code than
 * today's.
 *
 *   npm run figures               writes the table
 *   npm run figures -- --check    exits with 1 if the table is outdated
 *   npm run figures -- --adopt    first adds date and commit of results that lack them, from the history of their files
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { benchArguments } from './support/arguments.ts'
import { figuresPage, ownProvenance, readResult } from './support/figures-page.ts'
import { codeHashAt, MEASURED } from './support/measured-code.ts'

const root = join(import.meta.dirname, '..')
const { values } = benchArguments({ options: { check: { type: 'boolean' }, adopt: { type: 'boolean' } } })
const adopted = join(root, 'bench/results/adopted.json')

if (values.adopt === true) {
  const found: Record<string, { date: string; commit: string; codeHash: string }> = {}
  for (const [name, { sources }] of Object.entries(MEASURED)) {
    const file = `bench/results/${name}.json`
    const result = readResult(name)
    if (ownProvenance(result) !== null) continue
    const git = (...words: string[]): string => execFileSync('git', words, { cwd: root, encoding: 'utf8' }).trim()
    // The commit that added the figures contains the measured code, or is based on it.
    const commit = typeof result['commit'] === 'string' ? result['commit'] : git('log', '-1', '--format=%H', '--', file)
    const date = typeof result['date'] === 'string' ? result['date'] : git('log', '-1', '--format=%cI', '--', file)
    found[name] = { date, commit, codeHash: codeHashAt(commit, sources) }
  }
  writeFileSync(adopted, `${JSON.stringify(found, null, 2)}\n`)
}

const page = join(root, 'docs/figures.md')
const text = figuresPage()
if (values.check !== true) writeFileSync(page, text)
else if (readFileSync(page, 'utf8') !== text) {
  console.error('docs/figures.md is not what the results say: npm run figures')
  process.exit(1)
}
