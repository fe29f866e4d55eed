/** The subject of an export: a run, or one of its stages. */
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { purposeOf, stageOf } from '../../contracts/episode-purpose.ts'
import { episodeKeys } from '../../contracts/keys.ts'

export interface ExportSubject {
  run: string
  /** Stages with episodes, in export order. */
  stages: string[]
  /** The named stage; null for the whole run. */
  stage: string | null
}

/** Maximum number of names that an error lists. */
const MAX_LISTED = 20

/**
 * Parses `RUN`, `RUN:STAGE`, or `RUN:EVALUATION` if no stage has that name.
 * @param options.ofEvaluations considers only evaluations, so an evaluation takes precedence over a stage of the same name
 * @throws LonghaulError `Config.NotFound` with the existing names
 */
export async function findExportSubject(
  store: ArtifactStore,
  text: string,
  { ofEvaluations = false }: { ofEvaluations?: boolean } = {},
): Promise<ExportSubject> {
  const colon = text.indexOf(':')
  const run = colon === -1 ? text : text.slice(0, colon)
  // Names are taken from the list and never from the argument, so that an invalid argument never becomes part of a key.
  const runs = await store.folders('runs/')
  if (!runs.includes(run)) {
    const where = store.locate('runs')
    throw notFound(
      `Expected RUN or RUN:STAGE, got ${JSON.stringify(text)}: no run ${JSON.stringify(run)} is in the artifact store at ${where} (set LONGHAUL_ARTIFACTS to use another store). Runs: ${list(runs)}`,
    )
  }
  const all = await store.folders(episodeKeys.ofRun(run))
  const stages = ofEvaluations ? all.filter((stage) => purposeOf(stage).kind === 'evaluation') : all
  const what = ofEvaluations ? 'evaluations' : 'episodes'
  if (stages.length === 0) throw notFound(`Run ${run} has no ${what} to export. Its stages: ${list(all)}`)
  if (colon === -1) return { run, stages, stage: null }
  const named = text.slice(colon + 1)
  const stage = [named, stageOf({ kind: 'evaluation', name: named, iteration: null, suite: null })].find((one) =>
    stages.includes(one),
  )
  if (stage !== undefined) return { run, stages: [stage], stage }
  throw notFound(`Expected a stage of ${run} with ${what}, one of ${list(stages)}; got ${JSON.stringify(named)}`)
}

function list(names: readonly string[]): string {
  if (names.length === 0) return 'none'
  const more = names.length > MAX_LISTED ? ` and ${names.length - MAX_LISTED} more` : ''
  return `${names.slice(-MAX_LISTED).join(', ')}${more}`
}

function notFound(message: string): LonghaulError {
  return new LonghaulError({ code: 'Config.NotFound', message })
}
