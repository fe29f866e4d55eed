import type { FileEvent } from './judge-file.ts'

/** Node's own counts of one file, which the judgement replaces. */
const COUNTS = /^(?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) \d/

/** A test as a line with its title and an error below it; output of the file unchanged. */
export function printEvent(event: FileEvent): string {
  if (event.type === 'output') return event.text
  if (event.type === 'summary' || event.type === 'cpu') return ''
  const indent = '  '.repeat(event.nesting + 1)
  if (event.type === 'note') return COUNTS.test(event.text) ? '' : `${indent}ℹ ${event.text}\n`
  const { name, ms, skip, todo } = event
  const reason = skip ?? todo
  if (event.type === 'pass' && reason !== undefined) return `${indent}﹣ ${name} # ${reason}\n`
  if (event.type === 'pass') return `${indent}✔ ${name} (${Math.round(ms)} ms)\n`
  const detail = event.error.replaceAll(/^/gm, `${indent}    `)
  return `${indent}✖ ${name} (${Math.round(ms)} ms)\n${detail}\n`
}
