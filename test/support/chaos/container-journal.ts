/** Which turns a container holds, read from its own files: neither the product's records nor its words are asked. */
import { unpackTar } from 'modern-tar'
import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { LABELS } from '../../../src/adapters/docker/container/labels.ts'

export interface HeldTurn {
  turn: number
  token: string
}

/** What one container had executed when its end was near. */
export interface ContainerJournal {
  episode: string
  container: string
  /** By turn, then token. Turns that began and never ended are not among them. */
  done: HeldTurn[]
}

/** A frozen engine or API server must not hold up what the visitor waits for. */
export const PATIENCE_MS = 3_000
export const JOURNAL = '/.lh/turns'

/** @returns null where the engine or the container does not answer: what is gone has no journal */
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

/** Of the names of a journal's files, by turn. */
export function heldTurns(names: readonly string[]): HeldTurn[] {
  return names.flatMap(heldTurn).toSorted((one, other) => one.turn - other.turn)
}

/** `turns/3.0a1b2c.done` */
function heldTurn(name: string): HeldTurn[] {
  const [, turn, token] = /(?:^|\/)(\d+)\.([^./]+)\.done$/.exec(name) ?? []
  return turn === undefined || token === undefined ? [] : [{ turn: Number(turn), token }]
}
