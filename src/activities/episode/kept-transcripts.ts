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
 * Episodes as the last step of each left them, for its next step on this host. Records never change, so what is kept equals what the store
 * holds, up to turns that another attempt has added. Without it each step reads every turn before it: an episode of 60 turns reads 665 records, and 83 with it.
 */
export interface KeptTranscripts {
  /** It is no longer kept: a step that fails leaves nothing behind, and the attempt after it reads the records. Null: none is kept. */
  take(place: TranscriptPlace): KeptTranscript | null
  /** @param kept whose turns all have their observation in the store */
  keep(place: TranscriptPlace, kept: KeptTranscript): void
}

/** An episode of 131,072 tokens has some 4 MB. While a step lasts, its episode has them in memory in any case. */
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

/** A run that was removed and started anew has sandboxes of the same names. */
function nameOf({ owner, sandbox }: TranscriptPlace): string {
  return `${owner.ownerRun} ${sandbox.name}`
}

/** Numbers take eight bytes, characters two at most, and the objects of a turn about a kilobyte. */
function bytesOf({ action, observation }: Turn): number {
  const numbers = action.ids.length + action.logprobs.length + action.promptDelta.length
  const characters = action.text.length + (action.command?.length ?? 0) + (observation?.text.length ?? 0)
  return 1_024 + numbers * 8 + characters * 2
}
