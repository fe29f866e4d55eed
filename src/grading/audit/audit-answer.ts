import { isObject } from '../../domain/shapes.ts'
const OUTCOMES = ['passed', 'failed', 'error', 'skipped', 'xfailed', 'xpassed'] as const
/** `own-runner`: no test ran, because the repository is itself the test runner. */
const ENDINGS = ['complete', 'early', 'timeout', 'noise', 'own-runner'] as const

/** What `audit.py` writes. The sender is trusted; the contents of the strings are not. */
export interface AuditAnswer {
  ended: (typeof ENDINGS)[number]
  detail: string | null
  tests: { id: string; outcome: (typeof OUTCOMES)[number] }[]
  canaries: { module: string; must: 'pass' | 'fail'; outcome: string; ok: boolean }[]
  /** Trusted code that changed during the run. */
  changed: string[]
}

/** Null for bytes that the script never writes. */
export function readAuditAnswer(bytes: Uint8Array): AuditAnswer | null {
  const answer = parse(bytes)
  if (!isObject(answer) || answer['schema'] !== 1) return null
  const { ended, detail, tests, canaries, changed } = answer
  const isEnding = ENDINGS.find((known) => known === ended)
  if (isEnding === undefined || !Array.isArray(tests) || !Array.isArray(canaries) || !Array.isArray(changed))
    return null
  if (!tests.every(isTest) || !canaries.every(isCanary) || !changed.every((name) => typeof name === 'string'))
    return null
  return { ended: isEnding, detail: typeof detail === 'string' ? detail : null, tests, canaries, changed }
}

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    return null
  }
}

function isTest(value: unknown): value is AuditAnswer['tests'][number] {
  return isObject(value) && typeof value['id'] === 'string' && OUTCOMES.some((known) => known === value['outcome'])
}

function isCanary(value: unknown): value is AuditAnswer['canaries'][number] {
  if (!isObject(value)) return false
  const { module, must, outcome, ok } = value
  return (
    typeof module === 'string' &&
    (must === 'pass' || must === 'fail') &&
    typeof outcome === 'string' &&
    typeof ok === 'boolean'
  )
}
