/**
 * The measured code of each result, the command that repeats it, and a hash of that code: a printed figure of other code is marked.
 */
import { createHash } from 'node:crypto'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { codeLines } from './code-lines.ts'

const root = join(import.meta.dirname, '../..')

export interface Measured {
  /** The command that regenerates the result file. */
  command: string
  /** Files and folders whose change may change the figures. */
  sources: readonly string[]
  /** How long the command takes on two idle cores. Missing where it needs files of the user or hours. */
  minutes?: number
  /** Environment variables without which the result would lack a part. */
  needs?: readonly string[]
}

const RUN = [
  'src/activities',
  'src/adapters',
  'src/contracts',
  'src/domain',
  'src/platform',
  'src/scaffold',
  'src/grading',
  'src/workflows',
  'src/workers',
]
const TRAINER = ['trainer/longhaul_trainer']
const GRADING = ['src/grading', 'src/adapters/datasets']
const IN_CONTAINERS = [
  ...GRADING,
  'src/platform',
  'src/adapters/docker',
  'src/activities/gate',
  'src/activities/grading',
]
const HARNESS_SOURCES = ['LONGHAUL_FORK_SOURCE', 'LONGHAUL_REBENCH_V2_SOURCE']
const PEERS = [...RUN, 'src/stack', 'bench/peers.ts', 'bench/support/peers']

const REAL_TASKS = [
  ...IN_CONTAINERS,
  'src/adapters/datasets',
  'src/adapters/task-images',
  'infra/images/environments',
  'bench/real.ts',
  'test/support/real-tasks',
]

const SCALE = [
  'src/activities',
  'src/adapters/artifacts',
  'src/contracts',
  'src/workflows',
  'src/workers',
  'test/support/scale',
]

/** Keyed by the name of the file in `bench/results`. */
export const MEASURED: Readonly<Record<string, Measured>> = {
  audit: {
    minutes: 4,
    command: 'npm run bench:audit -- --rounds 5 --out bench/results/audit.json',
    sources: [...IN_CONTAINERS, 'bench/audit.ts', 'test/support/layouts'],
  },
  chaos: { command: 'npm run chaos -- --seeds 300', sources: [...RUN, ...TRAINER, 'test/support/chaos'] },
  'chaos-s3': {
    command: 'npm run chaos -- --store s3 --seeds 200 --out bench/results/chaos-s3.json',
    sources: [...RUN, 'test/support/chaos', 'test/support/artifacts'],
  },
  'chaos-pods': {
    command: 'npm run chaos -- --sandboxes pods --seeds 60 --out bench/results/chaos-pods.json',
    sources: [...RUN, 'test/support/chaos', 'test/support/kubernetes', 'infra/kubernetes'],
  },
  'chaos-reproduce': {
    command: 'npm run chaos -- --reproduce --seeds 20 --no-docs --out bench/results/chaos-reproduce.json',
    sources: [...RUN, ...TRAINER, 'test/support/chaos'],
  },
  'demo-kills': { command: 'npm run bench:demo-kills', sources: [...RUN, ...TRAINER, 'recipes/demo.yaml'] },
  demo: { command: 'npm run demo', sources: [...RUN, ...TRAINER, 'src/stack', 'recipes/demo.yaml', 'policies'] },
  'gate-kill': {
    minutes: 4,
    command: 'npm run bench:gate-kill -- --out bench/results/gate-kill.json',
    sources: [...RUN, 'test/support/gate-kill'],
  },
  gpu: {
    command: 'npm run bench:gpu -- --out bench/results/gpu.json',
    sources: [...RUN, ...TRAINER, 'bench/gpu.ts', 'bench/support/gpu'],
  },
  'grade-kill': {
    minutes: 4,
    command: 'npm run bench:grade-kill -- --out bench/results/grade-kill.json',
    sources: [...RUN, 'test/support/grade-kill'],
  },
  'grade-log': {
    minutes: 1,
    command: 'npm run bench:grade-log -- --out bench/results/grade-log.json',
    sources: [...GRADING, 'src/cli/commands/grade-log.ts'],
  },
  'grading-containers': {
    minutes: 10,
    needs: HARNESS_SOURCES,
    command: 'npm run bench:grading-containers -- --out bench/results/grading-containers.json',
    sources: [...IN_CONTAINERS, 'test/support/grading-oracle'],
  },
  'grading-differential': {
    minutes: 5,
    needs: HARNESS_SOURCES,
    command: 'npm run bench:grading-differential -- --out bench/results/grading-differential.json',
    sources: ['src/grading', 'test/support/grading-oracle'],
  },
  hostile: {
    minutes: 14,
    command: 'npm run bench:hostile -- --out bench/results/hostile.json',
    sources: [
      'src/activities',
      'src/adapters',
      'src/platform',
      'src/domain',
      'src/scaffold',
      'src/grading',
      'test/support/hostile',
    ],
  },
  kill: {
    minutes: 25,
    command: 'npm run bench:kill -- --times 20 --out bench/results/kill.json',
    sources: [...RUN, 'test/support/kill'],
  },
  leaks: {
    minutes: 5,
    command: 'npm run bench:leaks -- --out bench/results/leaks.json',
    sources: [...RUN, 'test/support/leaks'],
  },
  'learning-repair-seed-1': {
    command: 'npm run bench:learning -- --recipe repair --seeds 1 --out bench/results/learning-repair-seed-1.json',
    sources: [...RUN, ...TRAINER, 'recipes/repair.yaml', 'policies/repair-base'],
  },
  'learning-repair-seed-2': {
    command: 'npm run bench:learning -- --recipe repair --seeds 2 --out bench/results/learning-repair-seed-2.json',
    sources: [...RUN, ...TRAINER, 'recipes/repair.yaml', 'policies/repair-base'],
  },
  'learning-repair-seed-3': {
    command: 'npm run bench:learning -- --recipe repair --seeds 3 --out bench/results/learning-repair-seed-3.json',
    sources: [...RUN, ...TRAINER, 'recipes/repair.yaml', 'policies/repair-base'],
  },
  learning: {
    command: 'npm run bench:learning -- --seeds 1,2,3 --out bench/results/learning.json',
    sources: [...RUN, ...TRAINER, 'recipes/demo.yaml', 'policies'],
  },
  'learning-vllm': {
    command: 'npm run bench:learning -- --sampler vllm --seeds 1 --out bench/results/learning-vllm.json',
    sources: [...RUN, ...TRAINER, 'recipes/demo.yaml', 'policies/demo-base', 'bench/support/live-sampler.ts'],
  },
  'sampler-gap': {
    minutes: 10,
    command: 'npm run bench:sampler-gap -- --out bench/results/sampler-gap.json',
    sources: [
      ...RUN,
      ...TRAINER,
      'recipes/demo.yaml',
      'policies/demo-base',
      'bench/sampler-gap.ts',
      'bench/support/live-sampler.ts',
    ],
  },
  'honest-suites': {
    command:
      'npm run bench:honest-suites -- --project NAME=DIRECTORY --python FILE --without PATTERN --out bench/results/honest-suites.json',
    sources: ['src/adapters/docker/grader/audit', 'bench/honest-suites.ts', 'test/support/audit/run-audit.ts'],
  },
  'lying-servers': {
    minutes: 3,
    command: 'npm run bench:lying-servers -- --out bench/results/lying-servers.json',
    sources: [
      'src/adapters/policy-server',
      'trainer/longhaul_trainer/serve',
      'trainer/longhaul_trainer/rope.py',
      'bench/lying-servers.ts',
      'test/support/lying-servers',
      'trainer/tests/policy_pair.py',
    ],
  },
  'mutation-python': {
    command: 'python trainer/mutate.py objective; python trainer/mutate.py --sample batch=250 batch',
    sources: [
      'trainer/longhaul_trainer/objective',
      'trainer/longhaul_trainer/batch',
      'trainer/longhaul_trainer/step',
      'trainer/tests',
    ],
  },
  'mutation-python-step': {
    command: 'python trainer/mutate.py --sample step=100 step',
    sources: ['trainer/longhaul_trainer/step', 'trainer/tests'],
  },
  'mutation-typescript': { command: 'npm run mutate -- ts', sources: ['src/domain', 'src/scaffold', 'src/grading'] },
  'object-store': {
    minutes: 1,
    command: 'npm run bench:object-store -- --out bench/results/object-store.json',
    sources: ['src/adapters/artifacts', 'src/platform/hash.ts', 'bench/object-store.ts', 'infra/s3-server'],
  },
  orchestration: {
    minutes: 2,
    command: 'npm run bench:orchestration -- --out bench/results/orchestration.json',
    sources: ['src/workflows', 'src/domain', 'src/contracts', 'bench/orchestration.ts'],
  },
  peers: {
    command: 'npm run bench:peers -- --tasks 16 --compose FILE --out bench/results/peers.json',
    sources: PEERS,
  },
  'peers-real': {
    command:
      'npm run bench:peers -- --rows FILE --repos DIRECTORY --only pallets__flask-5014,psf__requests-6028,pytest-dev__pytest-6202 --compose FILE --out bench/results/peers-real.json',
    sources: PEERS,
  },
  pods: {
    minutes: 5,
    command: 'npm run bench:pods -- --out bench/results/pods.json',
    sources: [
      'src/platform',
      'src/adapters/kubernetes',
      'src/adapters/docker',
      'infra/kubernetes-server',
      'test/support/kubernetes',
      'bench/pods.ts',
    ],
  },
  real: {
    command: 'npm run bench:real -- --rows FILE --repos DIRECTORY --batch 2 --continue --out bench/results/real.json',
    sources: REAL_TASKS,
  },
  'real-others': {
    command:
      'npm run bench:real -- --rows FILE --repos DIRECTORY --play 0 --batch 3 --continue --out bench/results/real-others.json',
    sources: REAL_TASKS,
  },
  'real-logs': {
    command: 'npm run bench:real-logs -- --from DIRECTORY',
    sources: ['src/grading', 'test/support/grading-oracle', 'bench/real-logs.ts', 'bench/support/real-logs.ts'],
  },
  sandbox: {
    minutes: 5,
    command: 'npm run bench:sandbox -- --out bench/results/sandbox.json',
    sources: ['src/platform', 'src/adapters/docker', 'bench/sandbox.ts'],
  },
  scale: { minutes: 10, command: 'npm run bench:scale -- --out bench/results/scale.json', sources: SCALE },
  'scale-10000': {
    command: 'npm run bench:scale -- --episodes 10000 --together --out bench/results/scale-10000.json',
    sources: SCALE,
  },
  'scale-10000-kills': {
    command:
      'npm run bench:scale -- --episodes 10000 --turns 8 --kill-every 30 --out bench/results/scale-10000-kills.json',
    sources: SCALE,
  },
  'scale-kills': {
    minutes: 10,
    command: 'npm run bench:scale -- --episodes 1000 --kill-every 30 --out bench/results/scale-kills.json',
    sources: SCALE,
  },
  'trainer-cpu': {
    minutes: 2,
    command: 'npm run bench:trainer -- --out bench/results/trainer-cpu.json',
    sources: TRAINER,
  },
  viewer: {
    minutes: 4,
    command: 'npm run bench:viewer -- --out bench/results/viewer.json',
    sources: ['src/viewer', 'viewer', 'src/adapters/artifacts', 'src/activities/runtime', 'bench/viewer.ts'],
  },
  'trainer-proofs': { command: 'npm run test:trainer -- --full', sources: ['trainer'] },
}

/** Not measured: tests, and leftovers of tools. */
const IGNORED = /(\.test\.ts|\.pyc)$|(^|\/)(__pycache__|\.[^/]+|node_modules)(\/|$)/

/** Hash of the files in the working tree. */
export function codeHash(sources: readonly string[]): string {
  return hashOf(
    sources.flatMap(filesOf).map((file) => ({ file, hash: hashOfFile(file, readFileSync(join(root, file))) })),
  )
}

/** Hash of the files at a commit. @throws if git does not know the commit */
export function codeHashAt(commit: string, sources: readonly string[]): string {
  const git = (args: string[], input = ''): Buffer =>
    execFileSync('git', args, { cwd: root, input, maxBuffer: 1 << 30 })
  const listed = git(['ls-tree', '-r', '-z', '--format=%(objectname) %(path)', commit, '--', ...sources]).toString()
  const files = listed
    .split('\0')
    .flatMap((line) => (line === '' ? [] : [{ id: line.slice(0, 40), file: line.slice(41) }]))
  const contents = blobsOf(git(['cat-file', '--batch'], files.map(({ id }) => `${id}\n`).join('')))
  return hashOf(files.map(({ file }, at) => ({ file, hash: hashOfFile(file, contents[at] ?? Buffer.alloc(0)) })))
}

function hashOf(files: readonly { file: string; hash: string }[]): string {
  const lines = files.filter(({ file }) => !IGNORED.test(file)).map(({ file, hash }) => `${file} ${hash}\n`)
  return createHash('sha256')
    .update([...new Set(lines)].toSorted().join(''))
    .digest('hex')
}

function filesOf(source: string): string[] {
  const stat = statSync(join(root, source), { throwIfNoEntry: false })
  if (stat === undefined) return []
  if (stat.isFile()) return [source]
  return readdirSync(join(root, source), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
}

/** Hashes TypeScript without its comments, and all bytes of any other file. */
function hashOfFile(file: string, content: Buffer): string {
  const hashed = file.endsWith('.ts') ? codeLines(content.toString()) : content
  return createHash('sha1').update(hashed).digest('hex')
}

/** Parses the output of `git cat-file --batch`: a line with id, type and length before each content, and a line break after it. */
function blobsOf(printed: Buffer): Buffer[] {
  const blobs: Buffer[] = []
  for (let at = 0; at < printed.length; ) {
    const end = printed.indexOf('\n', at)
    const length = Number(printed.toString('latin1', at, end).split(' ')[2])
    blobs.push(printed.subarray(end + 1, end + 1 + length))
    at = end + 1 + length + 1
  }
  return blobs
}
