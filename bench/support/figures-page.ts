import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { codeHash, MEASURED } from './measured-code.ts'
import type { Provenance } from './versions.ts'

const results = join(import.meta.dirname, '../results')

/** The known provenance of a result; older results lack parts of it. */
export interface KnownProvenance {
  date: string
  commit: string
  /** Null if unknown. */
  dirty: boolean | null
  machine: string
  versions: string
  codeHash: string
}

export function readResult(name: string): Record<string, unknown> {
  return JSON.parse(readFileSync(join(results, `${name}.json`), 'utf8')) as Record<string, unknown>
}

/** @throws if neither the result nor `adopted.json` has the provenance */
export function provenanceOf(name: string): KnownProvenance {
  const result = readResult(name)
  const own = ownProvenance(result)
  if (own !== null) {
    if (own.codeHash === null) throw new Error(`${name}: its bench is not in bench/support/measured-code.ts`)
    const { date, commit, dirty, machine, versions, codeHash: measured } = own
    const { cores, processor, memoryGiB, kernel } = machine
    return {
      date,
      commit,
      dirty,
      machine: `${cores} × ${processor}, ${memoryGiB} GiB, Linux ${kernel}`,
      versions: Object.entries(versions)
        .map(([part, version]) => `${part} ${version}`)
        .join(', '),
      codeHash: measured,
    }
  }
  const adopted = JSON.parse(readFileSync(join(results, 'adopted.json'), 'utf8')) as Record<
    string,
    { date: string; commit: string; codeHash: string }
  >
  const found = adopted[name]
  if (found === undefined) throw new Error(`bench/results/${name}.json has no provenance: measure it again`)
  return { ...found, dirty: null, machine: machineIn(result), versions: versionsIn(result) }
}

/** Benches store the provenance at the top of their result or in a part of it. */
export function ownProvenance(result: Record<string, unknown>): Provenance | null {
  const places = [result, result['versions'], result['details']]
  const found = places.map((place) => (place as { provenance?: Provenance } | undefined)?.provenance)
  return found.find((provenance) => provenance !== undefined) ?? null
}

function machineIn(result: Record<string, unknown>): string {
  const all = { ...(result['versions'] as object | undefined), ...result } as Record<string, string | undefined>
  const { cores, memoryGiB, kernel } = all
  const parts = [
    ...(cores === undefined ? [] : [`${cores} cores`]),
    ...(memoryGiB === undefined ? [] : [`${memoryGiB} GiB`]),
    ...(kernel === undefined ? [] : [`Linux ${kernel}`]),
  ]
  return parts.length === 0 ? 'not stored' : parts.join(', ')
}

function versionsIn(result: Record<string, unknown>): string {
  const all = { ...(result['versions'] as object | undefined), ...result } as Record<string, unknown>
  const parts = ['node', 'temporalSdk', 'temporalServer', 'engine', 'torch'].flatMap((part) =>
    typeof all[part] === 'string' ? [`${part} ${all[part]}`] : [],
  )
  return parts.length === 0 ? 'not stored' : parts.join(', ')
}

/** The age of a figure in words, printed beside it. */
export function ageOf(name: string): string {
  const { date, commit, dirty } = provenanceOf(name)
  const at = `${date.slice(0, 10)} at ${commit.slice(0, 7)}${dirty === true ? ' with changes' : ''}`
  return isOutdated(name) ? `${at}; code has changed since` : at
}

/** Whether the measured code is not the code that was measured. */
export function isOutdated(name: string): boolean {
  return codeHash(MEASURED[name]?.sources ?? []) !== provenanceOf(name).codeHash
}

export function figuresPage(): string {
  const rows = Object.entries(MEASURED).map(([name, { command }]) => {
    const { machine, versions } = provenanceOf(name)
    const dry = readResult(name)['dry'] === true ? '; dry: no GPU was there' : ''
    return `| [${name}](../bench/results/${name}.json) | \`${command}\` | ${ageOf(name)}${dry} | ${machine} | ${versions} |`
  })
  return `# What the published figures rest on

Made by \`npm run figures\` from \`bench/results\`; a test compares it. Each result stores the command's date, commit, machine, versions and a hash of the code that it
measures (\`bench/support/measured-code.ts\`). *Code has changed since*: the figure was true of that commit, and was not measured again. Results from before
this was stored have date and commit of their file's history, and no word on uncommitted changes.

| result | command | measured | machine | versions |
|---|---|---|---|---|
${rows.join('\n')}
`
}
