import { LonghaulError } from '../contracts/errors.ts'
import type { ScaffoldProfile } from '../contracts/sandbox.types.ts'
import { DEMONSTRATION } from './prompts/demonstration.ts'
import { BRIEF_SYSTEM_PROMPT, FULL_SYSTEM_PROMPT } from './prompts/system.ts'

/** Window, overlap and paths follow the scaffold of arXiv 2508.03501 where the paper states them, and SWE-agent elsewhere. */
const paper: ScaffoldProfile = {
  name: 'paper',
  systemPrompt: FULL_SYSTEM_PROMPT,
  demonstration: DEMONSTRATION,
  firstMessage: 'full',
  tools: { windowLines: 100, windowOverlap: 2, pathForm: 'absolute' },
  observationChars: 16_000,
}

/**
 * The same tools for a policy of a million parameters: one-line prompt, a window that just holds the longest function of the demo's
 * tasks (five lines and one above), short paths. The limit is far above the output of its tasks, so only accidents reach it.
 */
const demo: ScaffoldProfile = {
  name: 'demo',
  systemPrompt: BRIEF_SYSTEM_PROMPT,
  demonstration: null,
  firstMessage: 'brief',
  tools: { windowLines: 6, windowOverlap: 1, pathForm: 'relative' },
  observationChars: 900,
}

const PROFILES: Record<string, ScaffoldProfile> = { paper, demo }

export function isProfile(name: string): boolean {
  return Object.hasOwn(PROFILES, name)
}

/** @throws LonghaulError `Config.Invalid` for a name that is not a profile */
export function scaffoldProfile(name: string): ScaffoldProfile {
  const profile = isProfile(name) ? PROFILES[name] : undefined
  if (profile !== undefined) return profile
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected scaffold to be one of ${Object.keys(PROFILES).join(', ')}, got ${JSON.stringify(name)}`,
  })
}
