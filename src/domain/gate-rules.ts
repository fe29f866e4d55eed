import type { VerdictKind } from '../contracts/episodes.types.ts'

export interface GateCheck {
  check: 'gold' | 'empty'
  /** From 1. */
  repeat: number
  verdict: VerdictKind
}

export type Admission =
  | { admitted: true }
  | { admitted: false; reason: 'gold-fails' | 'empty-passes' | 'could-not-grade' | 'incomplete' }

/** A check holds when the gold patch resolves the task, and when no patch does not. */
export function isGateCheckOk({ check, verdict }: Pick<GateCheck, 'check' | 'verdict'>): boolean {
  return verdict === (check === 'gold' ? 'resolved' : 'unresolved')
}

/** Every repeat of both checks must hold: one differing run makes the tests a coin, and a coin teaches nothing. */
export function decideAdmission({ checks, repeats }: { checks: readonly GateCheck[]; repeats: number }): Admission {
  if (checks.some(({ verdict }) => verdict === 'could-not-grade')) return { admitted: false, reason: 'could-not-grade' }
  const failed = checks.find((check) => !isGateCheckOk(check))
  if (failed !== undefined) {
    return { admitted: false, reason: failed.check === 'gold' ? 'gold-fails' : 'empty-passes' }
  }
  const done = new Set(checks.map(({ check, repeat }) => `${check}/${repeat}`))
  for (let repeat = 1; repeat <= repeats; repeat++) {
    if (!done.has(`gold/${repeat}`) || !done.has(`empty/${repeat}`)) return { admitted: false, reason: 'incomplete' }
  }
  return { admitted: true }
}
