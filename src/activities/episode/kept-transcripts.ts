import type { EpisodeSpec } from '../../contracts/episodes.types.ts'
import type { SandboxHandle } from '../../contracts/sandbox.types.ts'
import type { ActivityOwner } from '../runtime/activity-runtime.ts'
import type { Transcript, Turn } from './transcript.ts'

/** An episode up to its last committed turn. */
export interface KeptTranscript {
  spec: EpisodeSpec
  transcript: Transcript
}

export interface TranscriptPlace {
  owner: ActivityOwner
  sandbox: Pick<SandboxHandle, 'name'>
}

/**
 * Keeps episodes in memory between steps on this host. Records never change, so a kept transcript equals the store's content, except
 * for turns that another attempt has added. Without it each step reads all earlier turns: an episode of 60 turns reads 665 records, and
 * 83 with it.
 */
export interface KeptTranscripts {
  /** Removes and returns a kept transcript, so that a step that fails leaves nothing behind and the next attempt reads the records.
   *  Null if none is kept. */
  take(place: TranscriptPlace): KeptTranscript | null
  /** @param kept all of its turns must have their observation in the store */
  keep(place: TranscriptPlace, kept: KeptTranscript): void
}

/** An episode of 131,072 tokens takes about 4 MB. During a step its episode is in memory anyway. */
const KEPT_BYTES = 256 * 1024 * 1024

export function createKeptTranscripts({ maxBytes = KEPT_BYTES }: { maxBytes?: number } = {}): KeptTranscripts {
  /** In the order in which they were kept. */
  const kept = new Map<string, { of: KeptTranscript; bytes: number }>()
  let total = 0
  const remove = (name: string): KeptTranscript | null => {
    const found = kept.get(name)
    if (found === undefined) return null
    kept.delete(name)
    total -= found.bytes
    return found.of
  }
  return {
    take: (place) => remove(nameOf(place)),
    keep(place, of) {
      const name = nameOf(place)
      remove(name)
      const bytes = of.transcript.turns.reduce((sum, turn) => sum + bytesOf(turn), 0)
      kept.set(name, { of, bytes })
      total += bytes
      for (const oldest of kept.keys()) {
        if (total <= maxBytes) break
        remove(oldest)
      }
    },
  }
}

/** A run that was removed and started again has sandboxes of the same names. */
function nameOf({ owner, sandbox }: TranscriptPlace): string {
  return `${owner.ownerRun} ${sandbox.name}`
}

/** Estimate: numbers take eight bytes, characters at most two, and the objects of a turn about a kilobyte. */
function bytesOf({ action, observation }: Turn): number {
  const numbers = action.ids.length + action.logprobs.length + action.promptDelta.length
  const characters = action.text.length + (action.command?.length ?? 0) + (observation?.text.length ?? 0)
  return 1_024 + numbers * 8 + characters * 2
}
