/** The turns that a container has executed, read from its own files and not from the product's records or answers. */
import { unpackTar } from 'modern-tar'
import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { LABELS } from '../../../src/adapters/docker/container/labels.ts'

export interface HeldTurn {
  turn: number
  token: string
}

/** The turns that a container had executed shortly before its end. */
export interface ContainerJournal {
  episode: string
  container: string
  /** Ordered by turn, then token. Turns that began and never ended are not included. */
  done: HeldTurn[]
}

/** A frozen engine or API server must not block what the visitor waits for. */
export const PATIENCE_MS = 3_000
export const JOURNAL = '/.lh/turns'

/** @returns null if the engine or the container does not answer, because a removed container has no journal */
export async function readJournal({
  engine,
  name,
}: {
  engine: Engine
  name: string
}): Promise<ContainerJournal | null> {
  const container = engine.docker.getContainer(name)
  const abortSignal = AbortSignal.timeout(PATIENCE_MS)
  try {
    const { Id, Config } = await container.inspect({ abortSignal })
    const archive = await container.getArchive({ path: JOURNAL, abortSignal })
    const chunks: Buffer[] = []
    for await (const chunk of archive) chunks.push(chunk as Buffer)
    const entries = await unpackTar(Buffer.concat(chunks))
    const done = heldTurns(entries.map(({ header }) => header.name))
    return { episode: Config.Labels[LABELS.episode] ?? '', container: Id, done }
  } catch {
    return null
  }
}

/** Parses the names of a journal's files, ordered by turn. */
export function heldTurns(names: readonly string[]): HeldTurn[] {
  return names.flatMap(heldTurn).toSorted((one, other) => one.turn - other.turn)
}

/** `turns/3.0a1b2c.done` */
function heldTurn(name: string): HeldTurn[] {
  const [, turn, token] = /(?:^|\/)(\d+)\.([^./]+)\.done$/.exec(name) ?? []
  return turn === undefined || token === undefined ? [] : [{ turn: Number(turn), token }]
}
