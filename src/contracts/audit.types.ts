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

export type AuditRunner = 'pytest' | 'unittest' | 'django'

/** What a grading container audits before its official steps. */
export interface AuditPlan {
  /** Of the hidden tests, as the row has it. */
  testPatch: string
  /** Null where the row's tests have no second run: only the patch is read. */
  tests: AuditedTests | null
}

/** How the hidden tests are run a second time, by a runner of ours. */
export interface AuditedTests {
  runner: AuditRunner
  /** Options of the row's own test command that choose or judge no test. */
  arguments: string[]
  /** Files of the hidden tests, in the repository. */
  modules: string[]
  /** What Django's runner takes in their place; empty for the others. */
  labels: string[]
  /** Shell commands that give the interpreter of the task, as the row's own script has them; empty: the image's. */
  activation: string[]
  timeoutMs: number
}

/** What came back from the container. */
export interface AuditRun {
  /** What the patch alone shows; such a patch has no second run. */
  voids: AuditReason[]
  /** The patch as Git makes it of the tree that it leads to; null where it does not apply. */
  canonicalPatch: Uint8Array | null
  /** What `audit.py` said, unread; null where it did not run or did not end well. */
  result: string | null
  /** The last words of what failed; null where nothing did. */
  detail: string | null
  wallMs: number
}
