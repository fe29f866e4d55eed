import { open } from 'node:fs/promises'
import { errnoOf } from '../../../platform/errno.ts'

/** One line of progress.jsonl, as far as the pipeline reads it. */
export interface TrainerProgress {
  seq: number
  fence: number
  event: string
  phase: string
  /** ms since 1970 at which the trainer last did something other than beat. */
  lastProgressMs: number
  globalStep: number | null
  loss: number | null
}

/** Reads what was appended since the last call; a torn last line waits for its end, a broken one is skipped. */
export function tailProgress(path: string): () => Promise<TrainerProgress[]> {
  let offset = 0
  let rest = ''
  return async () => {
    const text = await readFrom(path, offset)
    offset += text.byteLength
    const lines = (rest + text.toString('utf8')).split('\n')
    rest = lines.pop() ?? ''
    return lines.flatMap(parseLine)
  }
}

async function readFrom(path: string, offset: number): Promise<Buffer> {
  try {
    const file = await open(path, 'r')
    try {
      const { size } = await file.stat()
      const buffer = Buffer.alloc(Math.max(0, size - offset))
      const { bytesRead } = await file.read(buffer, 0, buffer.byteLength, offset)
      return buffer.subarray(0, bytesRead)
    } finally {
      await file.close()
    }
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return Buffer.alloc(0)
    throw error
  }
}

function parseLine(line: string): TrainerProgress[] {
  let value: Record<string, unknown>
  try {
    value = JSON.parse(line) as Record<string, unknown>
  } catch {
    return []
  }
  const { seq, fence, event, phase, t, last_progress_t: last, global_step: step, loss } = value
  if (typeof seq !== 'number' || typeof event !== 'string' || typeof t !== 'number') return []
  return [
    {
      seq,
      event,
      fence: Number(fence),
      phase: String(phase),
      lastProgressMs: typeof last === 'number' ? last : t,
      globalStep: typeof step === 'number' ? step : null,
      loss: typeof loss === 'number' ? loss : null,
    },
  ]
}
