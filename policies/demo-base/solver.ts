import type { SandboxState } from '../../src/contracts/episodes.types.ts'
import type { ComposedTask, Random } from '../../src/adapters/datasets/synthetic/compose.ts'
import { functionName, functionText } from '../../src/adapters/datasets/synthetic/functions.ts'
import { OPERATORS } from '../../src/adapters/datasets/synthetic/operators.ts'
import type { Noise } from './noise.ts'

/** What the solver last did: the only thing it remembers. */
export type SolverStage = 'start' | 'listed' | 'searched-word' | 'found' | 'opened' | 'edited'

export interface SolverView {
  task: ComposedTask
  stage: SolverStage
  /** Last text from the environment. */
  observation: string
  state: Pick<SandboxState, 'openFile' | 'windowTop'>
  repoDir: string
  windowLines: number
  noise: Noise
  random: Random
}

export interface Move {
  reply: string
  next: SolverStage
}

interface Step {
  thought: string
  command: string
  next: SolverStage
}

/** One turn of the scripted solver: it knows the task, errs as `noise` says, and reacts to what it really sees. */
export function nextMove(view: SolverView): Move {
  const { thought, command, next } = chooseStep(view)
  const isMalformed = view.random.unit() < view.noise.format
  if (isMalformed) return { reply: malformedReply(view.random, command), next: view.stage }
  return { reply: `${thought}\n${block(command)}`, next }
}

/** Does the command carry the right edit? For the count of demonstrations that solve their task. */
export function isRightEdit(task: ComposedTask, reply: string): boolean {
  return reply.endsWith(block(editCommand(task.targetLine.wrongLine, task.targetLine.rightText)))
}

function chooseStep(view: SolverView): Step {
  switch (view.stage) {
    case 'start':
      return firstStep(view)
    case 'listed':
      return view.random.unit() < 0.5 ? openSomeModule(view) : searchFunction(view)
    case 'searched-word':
      return openSomeMatch(view)
    case 'found':
      return openDefinition(view.task)
    case 'opened':
      return editOrMoveOn(view)
    case 'edited':
      return finish(view)
  }
}

function firstStep(view: SolverView): Step {
  const { task, noise, random } = view
  const hasPath = task.level === 1
  if (random.unit() < noise.guess) return { thought: 'List files.', command: `ls ${task.packageName}`, next: 'listed' }
  if (random.unit() < noise.decoy) {
    const word = random.pick([task.target.verb, task.target.noun])
    return { thought: `Search ${word}.`, command: `git grep -n ${word}`, next: 'searched-word' }
  }
  return hasPath ? searchNamedFile(task) : searchFunction(view)
}

function searchNamedFile({ target, targetLine }: ComposedTask): Step {
  const name = functionName(target)
  return {
    thought: `Search ${name}.`,
    command: `search_file "def ${name}" ${targetLine.path}`,
    next: 'found',
  }
}

function searchFunction({ task }: SolverView): Step {
  const name = functionName(task.target)
  return { thought: `Search ${name}.`, command: `git grep -n "def ${name}"`, next: 'found' }
}

function openSomeModule({ task, random }: SolverView): Step {
  const { path } = random.pick(task.modules)
  return { thought: 'Maybe this file.', command: `open ${path} 1`, next: 'opened' }
}

/** Half of the time the right one of the matches, if it is there. */
function openSomeMatch(view: SolverView): Step {
  const { task, random, observation } = view
  const matches = [...observation.matchAll(/^([^:\n]+):(\d+):def (\w+)\(/gm)]
  const right = matches.find(([, , , name]) => name === functionName(task.target))
  const match = right !== undefined && random.unit() < 0.5 ? right : matches.length > 0 ? random.pick(matches) : null
  if (match === null) return searchFunction(view)
  return { thought: `Open line ${match[2]}.`, command: `open ${match[1]} ${match[2]}`, next: 'opened' }
}

function openDefinition({ targetLine: { path, definitionLine } }: ComposedTask): Step {
  return { thought: `Open line ${definitionLine}.`, command: `open ${path} ${definitionLine}`, next: 'opened' }
}

function editOrMoveOn(view: SolverView): Step {
  const { task, noise, random } = view
  const { path } = task.targetLine
  if (random.unit() < noise.noEdit) return { thought: 'Looks fine.', command: 'submit', next: 'edited' }
  if (view.state.openFile !== `${view.repoDir}/${path}`) {
    return { ...searchFunction(view), thought: `Wrong file. Search ${functionName(task.target)}.` }
  }
  return isTargetVisible(view) ? edit(view) : openDefinition(task)
}

/** Definition and wrong line are in the window. */
function isTargetVisible({ task, state, windowLines }: SolverView): boolean {
  const { definitionLine, wrongLine } = task.targetLine
  return state.windowTop <= definitionLine && wrongLine < state.windowTop + windowLines
}

/** The thought quotes the window line, so that the edit is two plain copies and one change. */
function edit({ task, noise, random }: SolverView): Step {
  const { path, wrongLine, rightText } = task.targetLine
  const home = task.modules.find((module) => module.path === path)
  const text = random.unit() < noise.operator ? otherWrongText(task, random) : rightText
  const isOffByOne = random.unit() < noise.line
  const line = isOffByOne ? wrongLine + random.pick([-1, 1]) : wrongLine
  const quoted = home?.lines[line - 1]
  if (quoted === undefined) return edit({ task, noise: { ...noise, line: 0 }, random } as SolverView)
  return { thought: `${line}:${quoted}`, command: editCommand(line, text), next: 'edited' }
}

function finish({ task, noise, random }: SolverView): Step {
  if (random.unit() >= noise.noSubmit) return { thought: 'Done.', command: 'submit', next: 'edited' }
  const command = random.pick(['scroll_up', 'scroll_down', `ls ${task.packageName}`])
  return { thought: 'Look again.', command, next: 'edited' }
}

function otherWrongText({ target }: ComposedTask, random: Random): string {
  const others = OPERATORS[target.kind].filter(({ symbol }) => symbol !== target.operator)
  const changed =
    target.kind === 'constant' && random.unit() < 0.5
      ? { ...target, constant: 2 + random.below(98) }
      : { ...target, operator: random.pick(others).symbol }
  const { lines, decisiveLine } = functionText(changed)
  return lines[decisiveLine] ?? ''
}

function editCommand(line: number, text: string): string {
  return `edit ${line}:${line} <<EOF\n${text}\nEOF`
}

function block(command: string): string {
  return `\`\`\`command\n${command}\n\`\`\``
}

function malformedReply(random: Random, command: string): string {
  return random.pick([
    `I run this now.\n${command}`,
    `\`\`\`\n${command}\n\`\`\``,
    `\`\`\`command\n${command}`,
    `${block(command)}\n${block('ls')}`,
  ])
}
