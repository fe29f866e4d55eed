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
  /** No second run exists for the test runner of this row, or the repository is that runner; what the patch alone shows was checked
   *  and is in order. */
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

/** What an auditing container does: it reads the patch, and runs the tests a second time if they can be. */
export interface AuditPlan {
  tests: AuditedTests | null
}

/** How the hidden tests are run by a runner of ours. */
export interface AuditedTests {
  runner: AuditRunner
  /** Of the hidden tests, as the row has it. */
  testPatch: string
  /** Words for `git apply`: which changes of the patch belong into the tested tree. */
  limits: string[]
  /** New files of the patch that belong into the tested tree all the same where the commit has no word of their name. */
  additions: string[]
  /** Program that the row's command starts; its Python runs the tests. */
  interpreter: string
  /** Options of the row's own test command that neither choose nor judge a test. */
  arguments: string[]
  /** Files of the hidden tests, in the repository. */
  modules: string[]
  /** What Django's runner takes in their place, or names that unittest was given. */
  labels: string[]
  /** Folders in the repository that the row's command puts on the path of imports. */
  roots: string[]
  /** Tests that the patch makes pass: their canaries always run, at any cost. */
  focus: string[]
  timeoutMs: number
}

/** What came back from the container. */
export interface AuditRun {
  kind:
    | 'does-not-apply'
    /** The patch was read, and no tests were asked for. */
    | 'read'
    | 'tests-do-not-apply'
    /** The image has no Python that could run the audit. */
    | 'untestable'
    /** The tree cannot be laid into the image's repository. */
    | 'does-not-fit'
    /** The tests ran, and what reports on them did not end well. */
    | 'failed'
    | 'tested'
  /** The patch as Git makes it of the tree that it leads to; empty where it does not apply. */
  canonicalPatch: Uint8Array
  /** What `audit.py` said, unread; empty where it did not run. */
  result: Uint8Array
  /** The last words of what failed; empty where nothing did. */
  errors: string
  /** From before the start of the container to the audit's answer, by the worker's clock. */
  wallMs: number
}
