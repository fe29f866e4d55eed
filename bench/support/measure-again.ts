import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isOutdated } from './figures-page.ts'
import { MEASURED, type Measured } from './measured-code.ts'

const root = join(import.meta.dirname, '../..')

/** A bench that takes this many times as long as planned is ended. */
const PATIENCE = 4
/** How long an ended bench may take to remove its containers and processes. */
const GRACE_MS = 60_000

export interface Planned {
  name: string
  program: string
  args: readonly string[]
  minutes: number
}

/**
 * The results to measure again, shortest first: those whose code has changed since, that need no input but variables that are
 * set, and that end within the minutes that are left.
 * @param only names of results that are planned whether or not their code has changed
 * @throws if a name of `only` is unknown, or its bench needs input that is not there
 */
export function planMeasurements({
  within,
  only = [],
  measured = MEASURED,
  isOld = isOutdated,
  env = process.env,
}: {
  /** In minutes. */
  within: number
  only?: readonly string[]
  measured?: Readonly<Record<string, Measured>>
  isOld?: (name: string) => boolean
  env?: NodeJS.ProcessEnv
}): Planned[] {
  const missing = (name: string): string[] => (measured[name]?.needs ?? []).filter((variable) => !env[variable])
  for (const name of only) {
    if (!Object.hasOwn(measured, name)) throw new Error(`Expected --only of results in docs/figures.md, got ${name}`)
    if (measured[name]?.minutes === undefined)
      throw new Error(`${name} needs input or hours. Run it yourself: ${measured[name]?.command}`)
    if (missing(name).length > 0) throw new Error(`${name} needs ${missing(name).join(' and ')}: see its --help`)
  }
  const names = only.length > 0 ? only : Object.keys(measured).filter((name) => isOld(name))
  const candidates = names.flatMap((name) => {
    const { command = '', minutes } = measured[name] ?? {}
    return minutes === undefined || missing(name).length > 0 ? [] : [{ name, minutes, ...programOf(command) }]
  })
  let left = within
  return candidates
    .toSorted((one, other) => one.minutes - other.minutes)
    .filter(({ minutes }) => {
      const fits = minutes <= left
      if (fits) left -= minutes
      return fits
    })
}

/**
 * Runs a bench and puts its result in the place of the old one, also where the result is bad (exit 1 or 3). A bench that failed to
 * measure (exit 2), was ended or wrote no result leaves the old result.
 * @param results the folder of the results
 * @returns the exit status, or a signal's name
 */
export async function measureAgain(
  { name, program, args, minutes }: Planned,
  results = join(root, 'bench/results'),
): Promise<number | string> {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-measure-'))
  const out = join(folder, `${name}.json`)
  try {
    const words = args.map((word) => (word === `bench/results/${name}.json` ? out : word))
    const bench = spawn(process.execPath, [join(root, program), ...words], { cwd: root, stdio: 'inherit' })
    const end = setTimeout(() => bench.kill('SIGTERM'), minutes * PATIENCE * 60_000)
    const kill = setTimeout(() => bench.kill('SIGKILL'), minutes * PATIENCE * 60_000 + GRACE_MS)
    const [status, signal] = (await once(bench, 'exit')) as [number | null, string | null]
    clearTimeout(end)
    clearTimeout(kill)
    const hasMeasured = status === 0 || status === 1 || status === 3
    if (hasMeasured && isJson(out)) copyFileSync(out, join(results, `${name}.json`))
    return signal ?? status ?? 2
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The program behind `npm run NAME -- ARGUMENTS`. */
function programOf(command: string): { program: string; args: string[] } {
  const [, script = '', rest = ''] = /^npm run (\S+)(?: -- (.+))?$/.exec(command) ?? []
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const [, program] = /^exec node scripts\/bootstrap\.mjs run (\S+)$/.exec(scripts[script] ?? '') ?? []
  if (program === undefined) throw new Error(`Nothing that can be measured again is run by: ${command}`)
  return { program, args: rest.split(' ') }
}

/** False for a file that is not there, too. */
function isJson(file: string): boolean {
  try {
    JSON.parse(readFileSync(file, 'utf8'))
    return true
  } catch {
    return false
  }
}
