/**
 * Prints the provenance of every published figure into `docs/figures.md`, and marks figures that were measured on other code than
 * today's.
 *
 *   npm run figures               writes the table
 *   npm run figures -- --check    exits with 1 if the table is outdated
 *   npm run figures -- --adopt    first adds date and commit of results that lack them, from the history of their files
 *   npm run figures -- --measure [--within MINUTES] [--only RESULT,…]
 *                                 first measures outdated results again, one after another and the shortest first: on an idle
 *                                 machine, and without the benches that need files of yours or hours
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { benchArguments, refuseArguments } from './support/arguments.ts'
import { ageOf, figuresPage, ownProvenance, readResult } from './support/figures-page.ts'
import { measureAgain, planMeasurements, type Planned } from './support/measure-again.ts'
import { codeHashAt, MEASURED } from './support/measured-code.ts'

const root = join(import.meta.dirname, '..')
const { values } = benchArguments({
  options: {
    check: { type: 'boolean' },
    adopt: { type: 'boolean' },
    measure: { type: 'boolean' },
    within: { type: 'string', default: '240' },
    only: { type: 'string' },
  },
})
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

let failed = 0
if (values.measure === true) {
  const planned = plan()
  console.error(`${planned.length} results in about ${planned.reduce((sum, { minutes }) => sum + minutes, 0)} minutes`)
  for (const [at, one] of planned.entries()) {
    console.error(`${at + 1}/${planned.length} ${one.name}: about ${one.minutes} minutes`)
    const status = await measureAgain(one)
    console.error(`${one.name}: exit ${status}; measured ${ageOf(one.name)}`)
    if (status !== 0) failed += 1
  }
}

const page = join(root, 'docs/figures.md')
const text = figuresPage()
if (values.check !== true) writeFileSync(page, text)
else if (readFileSync(page, 'utf8') !== text) {
  console.error('docs/figures.md is not what the results say: npm run figures')
  process.exit(1)
}
if (failed > 0) process.exitCode = 1

function plan(): Planned[] {
  const within = Number(values.within)
  if (!(within > 0)) refuseArguments(`Expected --within of minutes above 0, got ${values.within}`)
  try {
    return planMeasurements({ within, only: values.only?.split(',') ?? [] })
  } catch (error) {
    return refuseArguments((error as Error).message)
  }
}
