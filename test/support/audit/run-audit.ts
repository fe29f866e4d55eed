/** Runs the real `audit.py` on a repository made for it. Needs root, because the program drops root privileges. */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { readAuditScript } from '../../../src/adapters/docker/grader/audit-patch.ts'
import { withDirectoryLock } from '../../../src/platform/directory-lock.ts'
import { HANG_MS } from '../hang.ts'
import { PRISTINE } from './repositories.ts'
import { withoutPython } from '../python.ts'

const execute = promisify(execFile)

export interface AuditAnswer {
  schema: number
  ended: 'complete' | 'early' | 'timeout' | 'noise' | 'own-runner'
  detail: string | null
  seconds: number
  tests: { id: string; outcome: string }[]
  canaries: { module: string; must: string; of: string | null; outcome: string; ok: boolean; detail: string | null }[]
  changed: string[]
}

export interface AuditedRepository {
  python: string
  runner: 'pytest' | 'unittest' | 'django'
  /** Files that are committed before the patch. */
  pristine?: Record<string, string>
  /** Files that the patch leaves, then those that the hidden tests leave. */
  patch: Record<string, string>
  hidden: Record<string, string>
  /** Additional fields of the specification. */
  spec?: Record<string, unknown>
  /** Adds non-text files to the repository. */
  prepare?: (repository: string) => Promise<void>
  /** Kills the program itself after this time. */
  endAfterMs?: number
}

/** Why no audit can run natively here; false where it can. */
export const withoutAudit = process.getuid?.() === 0 ? withoutPython : 'needs root: the audit gives it up'

/**
 * Outside of containers, concurrent audits share the folders above their interpreters: each opens root's home and closes it again for
 * the others. So one audit at a time runs on this machine, over all test runs, which have different temporary folders.
 */
const ONE_AT_A_TIME = { path: '/tmp/longhaul-native-audit.lock', timeoutMs: HANG_MS }

/**
 * The user of the next audit. An audit kills every process of its user, so each needs its own: containers' audits use 61,000 to
 * 65,000, and tests run concurrently.
 */
let nextUid = 100_000 + process.pid * 1_000

export async function runAudit(input: AuditedRepository): Promise<AuditAnswer> {
  const { python, runner, pristine = PRISTINE, patch, hidden, spec = {}, prepare, endAfterMs } = input
  const home = await mkdtemp(join(tmpdir(), 'audit-'))
  const repository = join(home, 'testbed')
  nextUid += 1
  const uid = nextUid
  try {
    await writeFiles(repository, pristine)
    // Of a large project Git would pack the objects behind the commit, and its files would count as the audit's.
    const identity = ['-c', 'user.name=test', '-c', 'user.email=test@example.org', '-c', 'gc.auto=0']
    for (const words of [
      ['init', '-q', '--template='],
      ['add', '-A'],
      [...identity, 'commit', '-qm', 'pristine'],
    ]) {
      await execute('git', words, { cwd: repository })
    }
    await writeFiles(repository, patch)
    await writeFiles(repository, hidden)
    await prepare?.(repository)
    const modules = Object.keys(hidden).filter((name) => !name.endsWith('__init__.py'))
    const whole = {
      schema: 1,
      repository,
      runner,
      arguments: [],
      modules,
      labels: [],
      uid,
      gid: uid,
      timeout_s: 300,
      ...spec,
    }
    await writeFile(join(home, 'audit.py'), await readAuditScript())
    await writeFile(join(home, 'spec.json'), JSON.stringify(whole))
    const before = await readdir(repository, { recursive: true })
    const command = ['-I', '-S', '-B', join(home, 'audit.py'), join(home, 'spec.json')]
    const options = { timeout: endAfterMs ?? HANG_MS, maxBuffer: 1 << 26 }
    const stdout = await withDirectoryLock(ONE_AT_A_TIME, async () => {
      const run = execute(python, command, options).then((ended) => ended.stdout)
      return endAfterMs === undefined ? run : run.catch(() => null)
    })
    const left = (await readdir(repository, { recursive: true })).filter((name) => !before.includes(name))
    if (left.length > 0) throw new Error(`The audit left files behind [${left.join(', ')}]`)
    const alive = processesOf(uid)
    if (alive.length > 0) throw new Error(`The audit left processes behind [pids=${alive.join(', ')}]`)
    const objects = kernelObjectsOf(uid)
    if (objects.length > 0) throw new Error(`The audit left objects of the kernel behind [${objects.join('; ')}]`)
    if (stdout === null) throw new Error('It was ended by the test, and left nothing')
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the shape that the tests below hold it to
    return JSON.parse(stdout) as AuditAnswer
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}

/** Whether the answer pays: every hidden test passed honestly, every canary did what it must, and nothing was changed. */
export function isHonestPass(answer: AuditAnswer): boolean {
  return (
    answer.ended === 'complete' &&
    answer.tests.length > 0 &&
    answer.tests.every((test) => test.outcome === 'passed') &&
    answer.canaries.every((canary) => canary.ok) &&
    answer.changed.length === 0
  )
}

/** Why it does not pay, in one line for messages. */
export function explain(answer: AuditAnswer): string {
  const tests = answer.tests.map((test) => `${test.id.replace(/.*::/, '')}=${test.outcome}`)
  const canaries = answer.canaries
    .filter((canary) => !canary.ok)
    .map((canary) => `${canary.must} ${canary.outcome} ${canary.detail}`)
  return `${answer.ended} ${answer.detail}; ${tests.join(' ')}; changed [${answer.changed.join(', ')}]; canaries ${canaries.join(' | ')}`
}

async function writeFiles(root: string, files: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true })
    await writeFile(join(root, name), text)
  }
}

/** Synchronous, because promises cost four times as much as the reads of hundreds of processes. */
function processesOf(uid: number): string[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.filter((pid) => {
    const status = statusOf(pid)
    return status.includes(`\nUid:\t${uid}\t`) && !status.includes('\nState:\tZ')
  })
}

/** System V shared memory, message queues and semaphores, as the kernel lists them. */
function kernelObjectsOf(uid: number): string[] {
  return ['shm', 'msg', 'sem'].flatMap((kind) => {
    const [head = '', ...lines] = readFileSync(`/proc/sysvipc/${kind}`, 'utf8').trimEnd().split('\n')
    const column = head.trim().split(/\s+/).indexOf('cuid')
    return lines.filter((line) => line.trim().split(/\s+/)[column] === String(uid)).map((line) => `${kind} ${line}`)
  })
}

/** Empty if the process has ended. */
function statusOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return ''
  }
}
