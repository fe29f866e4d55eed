/**
 * The harness's side of the phases: the visits of all processes, and one trap at a time that holds a visitor while a fault strikes.
 */
import { createServer } from 'node:http'
import { closeServer, listenOnLoopback } from '../loopback.ts'
import type { Phase, Verdict, Visit } from './phases.ts'

/** A fault's immediate effect, while the visitor waits, and what continues afterwards. */
export interface Strike {
  /** The visitor's verdict. */
  verdict?: Verdict
  /** The fault's end and the recovery of the affected parts. */
  over?: Promise<unknown>
  /** Called after the fault: whether its effect was seen (a process died, a container was gone, a request failed). A fault whose
   *  effect was not seen has not struck. */
  seen: () => boolean | Promise<boolean>
}

export interface Trap {
  phase: Phase
  /** @default any */
  matches?: (visit: Visit) => boolean
  /** Springs at the n-th matching visit, from 1. */
  count: number
  strike: (visit: Visit) => Promise<Strike>
}

export interface Sprung {
  visit: Visit
  /** Resolves when the fault is over. */
  over: Promise<void>
  seen: () => boolean | Promise<boolean>
}

export interface MadeVisit extends Visit {
  atMs: number
}

export interface Visits {
  url: string
  made: readonly MadeVisit[]
  /** A visit that the harness itself observes. */
  report(visit: Visit): Promise<Verdict>
  /** Resolves when the fault has struck; rejects with the signal's reason if it never strikes. */
  set(trap: Trap, signal: AbortSignal): Promise<Sprung>
  /** Given to the process at its next visit, or when it asks. */
  tell(process: string, verdict: Verdict): void
  close(): Promise<void>
}

interface Armed extends Trap {
  left: number
  sprung: (sprung: Sprung) => void
  failed: (error: unknown) => void
}

export async function startVisits({
  observe = async () => undefined,
}: {
  /** Inspects the stack while each visitor waits. */
  observe?: (visit: Visit) => Promise<void>
} = {}): Promise<Visits> {
  const made: MadeVisit[] = []
  const waiting = new Map<string, Verdict>()
  let armed: Armed | null = null

  const take = (process: string): Verdict => {
    const told = waiting.get(process) ?? {}
    waiting.delete(process)
    return told
  }
  const receive = async (visit: Visit): Promise<Verdict> => {
    made.push({ ...visit, atMs: Date.now() })
    await observe(visit)
    const told = take(visit.process)
    const trap = armed
    if (trap === null || trap.phase !== visit.phase || trap.matches?.(visit) === false || --trap.left > 0) return told
    armed = null
    try {
      const { verdict, over, seen } = await trap.strike(visit)
      trap.sprung({ visit, over: Promise.resolve(over).then(() => undefined), seen })
      return { ...told, ...verdict }
    } catch (error) {
      trap.failed(error)
      return told
    }
  }
  const server = createServer((asked, answer) => {
    if (asked.method === 'GET') {
      const { searchParams } = new URL(asked.url ?? '', 'http://localhost')
      answer.end(JSON.stringify(take(searchParams.get('process') ?? '')))
      return
    }
    let text = ''
    asked.on('data', (chunk: Buffer) => (text += chunk.toString()))
    asked.on('end', () => {
      void receive(JSON.parse(text) as Visit).then((verdict) => answer.end(JSON.stringify(verdict)))
    })
  })
  server.requestTimeout = 0
  const port = await listenOnLoopback(server)
  return {
    url: `http://127.0.0.1:${port}/`,
    made,
    report: receive,
    set(trap, signal) {
      return new Promise((resolve, reject) => {
        const mine: Armed = { ...trap, left: trap.count, sprung: resolve, failed: reject }
        armed = mine
        const give = (): void => {
          if (armed === mine) armed = null
          reject(signal.reason as Error)
        }
        if (signal.aborted) give()
        else signal.addEventListener('abort', give, { once: true })
      })
    },
    tell: (process, verdict) => waiting.set(process, { ...waiting.get(process), ...verdict }),
    close: () => closeServer(server),
  }
}
