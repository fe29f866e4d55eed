/**
 * What a record says about itself, held against the key that it was found under. A seal proves that the bytes of a record are whole; it
 * does not prove that they are where they were written. A copy under the key of another record, or one of a later version, would be read
 * as something else without an error.
 */

/** Schemas that this version reads in a version other than 1. */
export const SCHEMA_VERSIONS: Readonly<Record<string, number>> = { evaluation: 2, gate: 2, 'gated-suite': 2 }

/** Schema of each file of an episode, without its version. */
const EPISODE_FILES: Readonly<Record<string, string>> = {
  'spec.json': 'episode',
  'turns/start.json': 'episode-start',
  'turns/#.action.json': 'action',
  'turns/#.observation.json': 'observation',
  'turns/#.tree.json': 'tree',
  'placements/#.json': 'placement',
  'disposition.json': 'disposition',
  'capture.json': 'capture',
  'verdict.json': 'verdict',
  'result.json': 'episode-result',
}

interface Told {
  schema?: unknown
  episode?: unknown
  turn?: unknown
  placement?: unknown
  run?: unknown
  stage?: unknown
  iteration?: unknown
  taskId?: unknown
}

/** Returns why this record cannot be the one of its key; null if nothing speaks against it. Fields that a record lacks prove nothing. */
export function misplaced(key: string, record: object): string | null {
  const told = record as Told
  return laterSchema(told) ?? foreignEpisode(key, told) ?? foreignIteration(key, told) ?? foreignTask(key, told)
}

function laterSchema({ schema }: Told): string | null {
  const [, name = '', version] = (typeof schema === 'string' && /^longhaul\.([a-z-]+)\/(\d+)$/.exec(schema)) || []
  if (version === undefined || Number(version) <= (SCHEMA_VERSIONS[name] ?? 1)) return null
  return `a later version of Longhaul wrote it (${String(schema)})`
}

function foreignEpisode(key: string, told: Told): string | null {
  const [, id, file = '', number] =
    /^episodes\/((?:[^/]+\/){4}[^/]+)\/((?:turns\/|placements\/)?(?:(\d+)(?:\.[a-z]+)?|[a-z]+)\.json)$/.exec(key) ?? []
  if (id === undefined) return null
  if (typeof told.episode === 'string' && told.episode !== id) return `it is a record of episode ${told.episode}`
  const expected = EPISODE_FILES[number === undefined ? file : file.replace(number, '#')]
  if (expected === undefined) return null
  if (typeof told.schema === 'string' && !told.schema.startsWith(`longhaul.${expected}/`))
    return `it is a ${told.schema}`
  const counted = expected === 'placement' ? told.placement : told.turn
  if (number === undefined || typeof counted !== 'number' || counted === Number(number)) return null
  return `it is a record of ${expected === 'placement' ? 'placement' : 'turn'} ${counted}`
}

function foreignIteration(key: string, { run, stage, iteration }: Told): string | null {
  const [, ofRun, ofStage, number] = /^runs\/([^/]+)\/([^/]+)\/iterations\/(\d+)\/[^/]+$/.exec(key) ?? []
  if (ofRun === undefined || ofStage === undefined) return null
  const isOwn =
    (typeof run !== 'string' || run === ofRun) &&
    (typeof stage !== 'string' || stage === ofStage) &&
    (typeof iteration !== 'number' || iteration === Number(number))
  return isOwn ? null : `it is a record of ${String(run)}, ${String(stage)}, iteration ${String(iteration)}`
}

function foreignTask(key: string, { taskId }: Told): string | null {
  const [, ofTask] = /^suites\/[^/]+\/tasks\/([^/]+)\.json$/.exec(key) ?? []
  return ofTask === undefined || typeof taskId !== 'string' || taskId === ofTask ? null : `it is the task ${taskId}`
}
