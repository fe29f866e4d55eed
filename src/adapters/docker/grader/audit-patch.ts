import { deflateSync } from 'node:zlib'
import { readFile } from 'node:fs/promises'
import type { AuditRun } from '../../../contracts/audit.types.ts'
import type { AuditRunInput } from '../../../contracts/sandbox.types.ts'
import { shellQuote } from '../../../platform/run-command.ts'
import type { FileToPack } from '../engine/tar.ts'
import { HOSTS_FILE, readScript, textFile } from '../sandbox/runner-files.ts'
import { type AuditOutput, createAuditReader, failed } from './grade-output.ts'
import { DEFAULT_PATCH_PATH } from './grade-patch.ts'
import type { Grader } from './grading.ts'

/** Slack beyond the limit of the audited tests: `tree.py` waits a minute for `audit.py`, and then restores the tree. */
const AUDIT_SLACK_MS = 90_000

/** Audits a patch in a fresh container or pod, where no code of the patch runs as root.
 *  @throws LonghaulError `Sandbox.ImageMissing`, `Sandbox.Stalled`, `Grading.Failed`, `Grading.Ended` */
export async function auditPatch(grader: Grader, input: AuditRunInput, signal: AbortSignal): Promise<AuditRun> {
  const testTimeoutMs = input.audit.tests?.timeoutMs ?? 0
  const { answer, startMs } = await grader<AuditOutput>(
    {
      patch: input,
      script: 'audit.sh',
      files: await auditFiles(input),
      testTimeoutMs,
      timeoutMs: testTimeoutMs + AUDIT_SLACK_MS,
      read: createAuditReader,
      overdue: () => ({
        words: ['failed'],
        patch: Buffer.alloc(0),
        result: Buffer.alloc(0),
        errors: Buffer.from('The auditing container did not end by its own deadline'),
        atMs: performance.now(),
      }),
    },
    signal,
  )
  return toAudit(answer, startMs)
}

/** The scripts only if the audit runs tests. */
async function auditFiles({ audit, patch, repoDir }: AuditRunInput): Promise<FileToPack[]> {
  const files: FileToPack[] = [
    { name: '.lh/', mode: 0o700 },
    { name: '.lh/audit/', mode: 0o700 },
    HOSTS_FILE,
    textFile('.lh/repository', repoDir),
    textFile('.lh/audit/patch', DEFAULT_PATCH_PATH),
    { name: DEFAULT_PATCH_PATH.slice(1), body: patch, mode: 0o644 },
  ]
  if (audit.tests === null) return files
  const { limits, additions, testPatch, interpreter, timeoutMs, ...tests } = audit.tests
  const spec = {
    schema: 1,
    repository: repoDir,
    ...tests,
    uid: '@UID@',
    gid: '@UID@',
    timeout_s: Math.ceil(timeoutMs / 1000),
  }
  const [tree, script] = await Promise.all([readTreeScript(), readAuditScript()])
  return [
    ...files,
    textFile('.lh/audit/limits', limits.map(shellQuote).join(' ')),
    ...(additions.length === 0 ? [] : [textFile('.lh/audit/additions', `${additions.join('\n')}\n`)]),
    textFile('.lh/audit/interpreter', interpreter),
    textFile('.lh/audit/test.diff', testPatch),
    textFile('.lh/audit/spec.json', JSON.stringify(spec)),
    textFile('.lh/audit/tree.py', tree),
    // Compressed, it is short enough for the shell to write.
    textFile('.lh/audit/audit.py', packed(script)),
  ]
}

/** @internal exported for its test */
export function packed(script: string): string {
  return base85(deflateSync(script, { level: 9 }))
}

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~'

/** As Python's `base64.b85encode`: a sixteenth shorter than Base64.
 *  @internal exported for its test */
export function base85(bytes: Uint8Array): string {
  const padding = (4 - (bytes.length % 4)) % 4
  const words = Buffer.concat([bytes, Buffer.alloc(padding)])
  const text = Array.from({ length: words.length / 4 }, (_, index) => digitsOf(words.readUInt32BE(index * 4))).join('')
  return text.slice(0, text.length - padding)
}

function digitsOf(word: number): string {
  return [85 ** 4, 85 ** 3, 85 ** 2, 85, 1].map((place) => DIGITS[Math.floor(word / place) % 85]).join('')
}

const AUDIT_KINDS: readonly AuditRun['kind'][] = [
  'does-not-apply',
  'read',
  'tests-do-not-apply',
  'untestable',
  'does-not-fit',
  'failed',
  'tested',
]

/** @internal exported for its test */
export function toAudit({ words, patch, result, errors, atMs }: AuditOutput, startMs: number): AuditRun {
  const kind = AUDIT_KINDS.find((known) => known === words[0])
  if (kind === undefined || words.length !== 1) {
    throw failed(`The grading container returned an unknown audit: ${words.join(' ').slice(0, 200)}`)
  }
  return { kind, canonicalPatch: patch, result, errors: errors.toString(), wallMs: Math.round(atMs - startMs) }
}

const texts = new Map<string, Promise<string>>()

/** The program that runs hidden tests a second time inside a grading container. */
export async function readAuditScript(): Promise<string> {
  return withoutComments(await withProcesses(`${await readHere('questions.py')}${await readHere('audit.py')}`))
}

/** Each grading is given the program through its shell, which takes no more than `MAX_INLINE_BYTES` of a file. Lines that are comments and
 *  descriptions that are not the whole body of what they describe are left out; no other text of it looks like these. A level of
 *  indentation is one space. */
function withoutComments(program: string): string {
  return program
    .replaceAll(/^[ \t]*#.*\n/gm, '')
    .replaceAll(/^([ \t]+)"""[^"]*"""\n(?=\n*\1\S)/gm, '')
    .replaceAll(/^(?: {4})+/gm, (indent) => ' '.repeat(indent.length / 4))
}

/** The program that lays the tree in which it does, and takes it back. */
export async function readTreeScript(): Promise<string> {
  return withProcesses(await readScript('tree.py'))
}

async function withProcesses(program: string): Promise<string> {
  return `${await readHere('processes.py')}${program}`
}

function readHere(name: string): Promise<string> {
  const text = texts.get(name) ?? readFile(new URL(`./audit/${name}`, import.meta.url), 'utf8')
  texts.set(name, text)
  return text
}
