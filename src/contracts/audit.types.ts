/**
 * The second opinion on a grading. The official verdict says what upstream's harness would say; a reward is paid only for a
 * resolved patch that the audit agrees with.
 */

/** Why an audit takes the reward away. Facts about the patch and its run, never about the machine. */
export const AUDIT_REASONS = {
  'patch-not-canonical': 'the patch is not what Git makes of the tree that it leads to',
  'binary-for-text': 'the patch gives a text file as binary data',
  'collides-with-tests': 'the patch names a path that the hidden tests own',
  'tests-not-whole': 'the hidden tests could not be put back as they are',
  'startup-hook': 'the patch adds a file that an interpreter or a test runner loads by itself',
  'no-honest-pass': 'a listed test did not plainly pass',
  'canary-passed': 'a test whose assertions must fail did pass',
  'canary-failed': 'a test whose assertions must pass did not',
  'runner-changed': 'the code under test changed the test runner or its assertions',
  'results-forged': 'the channel of results held something that the audit had not sent',
  'ended-early': 'the tests ended before all of them had run',
  'too-slow': 'the audit did not end within the time of the tests',
} as const

export type AuditReason = keyof typeof AUDIT_REASONS

export type AuditOutcome =
  /** Every listed test passed honestly, and every canary did what it must. */
  | 'agrees'
  | 'void'
  /** No second run exists for the test runner of this row; what the patch alone shows was checked and is in order. */
  | 'unsupported'

export interface AuditVerdict {
  outcome: AuditOutcome
  reasons: AuditReason[]
  /** One line for people: which test, path or canary; null where there is nothing to add. */
  detail: string | null
  /** Wall time of the audit inside the container; 0 where only the patch was read. */
  auditMs: number
}
