import { corrupt } from '../../artifacts/store-rules.ts'
import { absentable, anything, fieldOf, listOf, object, text } from '../../artifacts/records/shape.ts'

/** What readers beside the trainer need of a batch's manifest. */
export interface BatchManifest {
  policies: { version: string }[]
  trajectories: BatchedTrajectory[]
}

interface BatchedTrajectory {
  id: string
  /** Present for an expert: a success of fine-tuning that was added to a group. */
  expert?: unknown
}

const shape = object<BatchManifest>({
  policies: listOf(object<{ version: string }>({ version: text })),
  trajectories: listOf(object<BatchedTrajectory>({ id: text, expert: absentable(anything) })),
})

/** @throws LonghaulError `Artifact.Corrupt`, because the trainer's file has no seal of its own */
export function parseBatchManifest(key: string, bytes: Uint8Array | null): BatchManifest {
  let manifest: unknown
  try {
    manifest = JSON.parse(new TextDecoder().decode(bytes ?? new Uint8Array()))
  } catch (cause) {
    throw corrupt(key, 'not JSON', cause)
  }
  const misfit = shape.misfit(manifest)
  if (misfit === null) return manifest as BatchManifest
  throw corrupt(
    key,
    `${fieldOf(misfit) || 'the manifest'} is ${misfit.got}, but in a manifest it is ${misfit.expected}`,
  )
}
