import { problem, type Settings } from './combination.ts'
import type { RecipeProblem } from './explain-issues.ts'

/** From here on attention costs more to compute again than its outputs cost to keep, and all activations of a layer exceed a GPU. */
const LONG_CONTEXT = 32_768

/** Of a recipe that says nothing about it. */
export function defaultRecompute({ trainer, rft, reinforce }: Settings): 'none' | 'save_attention' {
  const longest = Math.max(rft?.context ?? 0, ...(reinforce?.stages.map(({ context }) => context) ?? []))
  return trainer.device === 'cuda' && longest >= LONG_CONTEXT ? 'save_attention' : 'none'
}

/** Refuses a launcher that cannot start so many ranks, ranks that sequences cannot be split over, and offloading that saves nothing. */
export function trainerShape({ trainer }: Settings): RecipeProblem[] {
  const problems: RecipeProblem[] = []
  const ranks = trainer.nodes * trainer.ranksPerNode
  if (trainer.launcher === 'process' && ranks > 1) {
    problems.push(
      problem(
        ['trainer', 'launcher'],
        `expected another launcher for ${trainer.nodes} × ${trainer.ranksPerNode} ranks, got process`,
        'process starts exactly one; torchrun starts several on this machine',
      ),
    )
  }
  if ((trainer.launcher === 'torchrun' || trainer.launcher === 'docker') && trainer.nodes > 1) {
    problems.push(
      problem(
        ['trainer', 'nodes'],
        `expected 1 with launcher: ${trainer.launcher}, got ${trainer.nodes}`,
        'it starts ranks on one machine; use slurm or kubernetes for several',
      ),
    )
  }
  problems.push(...launcherOptions(trainer))
  if (ranks % trainer.contextParallel !== 0) {
    problems.push(
      problem(
        ['trainer', 'contextParallel'],
        `expected a divisor of nodes × ranksPerNode = ${ranks}, got ${trainer.contextParallel}`,
        'each sequence is cut over that many ranks',
      ),
    )
  }
  if (trainer.offload !== 'none' && trainer.offload !== 'optimizer' && trainer.recompute === 'none') {
    problems.push(
      problem(
        ['trainer', 'offload'],
        `expected none or optimizer with recompute: none, got ${trainer.offload}`,
        'only the layer inputs that recomputation keeps are moved',
      ),
    )
  }
  if (trainer.offload !== 'none' && trainer.offload !== 'activations' && trainer.device === 'cpu') {
    problems.push(
      problem(
        ['trainer', 'offload'],
        `expected none or activations with device: cpu, got ${trainer.offload}`,
        'its optimizer is on the host already',
      ),
    )
  }
  if (trainer.stallS > trainer.timeoutS) {
    problems.push(
      problem(
        ['trainer', 'stallS'],
        `expected at most timeoutS ${trainer.timeoutS}, got ${trainer.stallS}`,
        'a stall must be seen before the job times out',
      ),
    )
  }
  return problems
}

/** Options that the launcher sets, and those with which it would not find its job again. */
const OURS_IN_SLURM =
  'array clusters comment dependency job-name nodes ntasks-per-node open-mode output requeue signal test-only time wait'.split(
    ' ',
  )

/** The last of two equal options takes effect in Slurm. One line may hold several, in the short form too, and a long one may be shortened. */
function isOursInSlurm(line: string): boolean {
  return line.split(/\s+/).some((word) => {
    if (/^-[adJMNotW]/.test(word)) return true
    const name = /^--([a-z-]+)/.exec(word)?.[1]
    return name !== undefined && OURS_IN_SLURM.some((ours) => ours.startsWith(name))
  })
}

/** Refuses options of a launcher that is not selected, because they would be silently ignored. */
function launcherOptions(trainer: Settings['trainer']): RecipeProblem[] {
  const named = ['docker', 'slurm', 'kubernetes'] as const
  const unused = named.filter((name) => trainer[name] !== null && trainer.launcher !== name)
  const needed = (['docker', 'kubernetes'] as const).filter(
    (name) => trainer.launcher === name && trainer[name] === null,
  )
  const taken = (trainer.slurm?.extra ?? []).filter(isOursInSlurm)
  return [
    ...taken.map((word) =>
      problem(
        ['trainer', 'slurm', 'extra'],
        `expected options that the launcher does not set itself, got ${JSON.stringify(word)}`,
        'by name, comment and --dependency=singleton it finds a job again and keeps a second from running beside it',
      ),
    ),
    ...unused.map((name) =>
      problem(
        ['trainer', name],
        `has no effect with launcher: ${trainer.launcher}`,
        'remove it or choose that launcher',
      ),
    ),
    ...needed.map((name) =>
      problem(['trainer', name], 'expected at least an image, got nothing', 'see docs/training.md'),
    ),
  ]
}
