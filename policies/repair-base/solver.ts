import type { Random } from '../../src/adapters/datasets/synthetic/compose.ts'
import type { RenamedModule, RenamedTask } from '../../src/adapters/datasets/synthetic/half-renamed.ts'

/** A turn of the scripted solver. */
export interface RepairMove {
  reply: string
  /** A wrong turn on purpose: it is played and not learned, only the way back is. */
  isMistake: boolean
}

export interface RepairSolverInput {
  task: RenamedTask
  random: Random
  /** Probability of each kind of wrong turn where it may happen. @default 0.08 */
  detours?: number
}

const TEST = 'python3 -m pytest -qx --tb=line -rN'

/**
 * Plays a task of `half-renamed` with the paper's tools: tests and a search tell the names and the places, then one of three ways
 * to repair, then mostly tests again. Which way is drawn; no way is better by the demonstrations, so that training has something to find.
 */
export function* solveRepair({ task, random, detours = 0.08 }: RepairSolverInput): Generator<RepairMove, void> {
  const { oldName, newName, level, home, modules } = task
  const stale = modules.filter(({ staleLines }) => staleLines.length > 0)
  const mayErr = (): boolean => random.unit() < detours

  if (level === 3 || random.unit() < 0.4) yield turn('I run the tests.', TEST)
  if (level > 1 || random.unit() < 0.6) yield turn(`I search ${oldName}.`, `git grep -n ${oldName}`)
  const fact = `${oldName} is now ${newName}.`
  if (mayErr()) {
    yield mistake('I look at the definition.', `open ${home.path}`)
    yield turn(`This file has the new name. ${fact}`, `git grep -n ${oldName}`)
  }

  const way = random.pick(['edit', 'edit', 'replace', 'replace', 'sed'] as const)
  if (way === 'sed') {
    const paths = stale.map(({ path }) => path).join(' ')
    yield turn(fact, `sed -i 's/${oldName}/${newName}/g' ${paths}`)
  } else {
    for (const [position, module] of stale.entries()) {
      yield turn(fact, `open ${module.path}`)
      if (way === 'replace') yield* replaceAll(task, mayErr)
      else yield* editBlocks(task, module, mayErr)
      const isLast = position === stale.length - 1
      if (!isLast && random.unit() < 0.3) yield turn('I run the tests.', TEST)
    }
  }
  if (random.unit() < 0.6) yield turn('I run the tests again.', TEST)
  yield turn(`No file uses ${oldName} any more.`, 'submit')
}

function* replaceAll({ oldName, newName }: RenamedTask, mayErr: () => boolean): Generator<RepairMove, void> {
  if (mayErr()) {
    yield mistake('I replace the name.', `replace ${oldName} ${newName}`)
    yield turn('It is there more than once.', `replace --replace-all ${oldName} ${newName}`)
    return
  }
  yield turn('I replace the name.', `replace --replace-all ${oldName} ${newName}`)
}

function* editBlocks(
  { oldName, newName }: RenamedTask,
  { path, right, staleLines }: RenamedModule,
  mayErr: () => boolean,
): Generator<RepairMove, void> {
  const fact = `${oldName} is now ${newName}.`
  let isSpoiled = mayErr()
  for (let again = true; again; ) {
    again = false
    for (const [first, last] of blocksOf(staleLines)) {
      const text = right.slice(first - 1, last).join('\n')
      const command = (from: number, to: number): string => `edit ${from}:${to} << 'EOF'\n${text}\nEOF`
      if (isSpoiled) {
        isSpoiled = false
        again = true
        yield mistake(fact, command(first + 1, last + 1))
        yield turn('That was the wrong line. I start again.', `git checkout ${path}`)
        yield turn(fact, `open ${path}`)
        break
      }
      yield turn(`Line ${first}. ${fact}`, command(first, last))
    }
  }
}

/** Runs of neighbouring numbers, as [first, last]. */
export function blocksOf(lines: readonly number[]): [number, number][] {
  const blocks: [number, number][] = []
  for (const line of lines) {
    const last = blocks.at(-1)
    if (last !== undefined && last[1] === line - 1) last[1] = line
    else blocks.push([line, line])
  }
  return blocks
}

function turn(thought: string, command: string): RepairMove {
  return { reply: `${thought}\n\`\`\`command\n${command}\n\`\`\``, isMistake: false }
}

function mistake(thought: string, command: string): RepairMove {
  return { ...turn(thought, command), isMistake: true }
}
