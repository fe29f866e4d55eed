/**
 * Prints what every published figure rests on into `docs/figures.md`, and says which were measured on other code than today's.
 *
 *   npm run figures               the table anew
 *   npm run figures -- --check    exit 1 where it is not what this would write
 *   npm run figures -- --adopt    first: date and commit of results from before they stored them, from the history of their files
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
    // The commit that brought the figures holds the code that gave them, or was made from it.
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
