/**
 * The model of all runners: an OpenAI-compatible endpoint that identifies the task by its statement and the turn by the answers in
 * the conversation. It checks the output of every command and records how many ran in each container.
 */
import {
  json,
  says as plain,
  startScriptedEndpoint,
  type Answer,
  type SeenRequest,
} from '../../../test/support/chat-endpoint/scripted-endpoint.ts'
import { commandOf, expectedHash, notedIn, type PeerTask } from './script.ts'

export interface ScriptedModel {
  url: string
  /** Answers so far. */
  answers(): number
  /** Number of checked commands, by task, then by container. */
  boxes: ReadonlyMap<string, ReadonlyMap<string, number>>
  /** Adds notes that were found in a container. */
  addBox(taskId: string, box: string, lines: number): void
  /** Outputs that differ from the expected ones. */
  faults: string[]
  /** Resolves after this many answers. */
  after(answers: number): Promise<void>
  close(): Promise<void>
}

export interface ScriptedModelInput {
  tasks: readonly PeerTask[]
  /** Commands per episode; the endings follow. */
  turns: number
  /** The actions that submit the work, one per answer. */
  endings: readonly Ending[]
}

/** A command, or a call of a tool that the runner offers. */
export type Ending = { command: string } | { tool: string; arguments: object }

interface Message {
  role: string
  content: unknown
}

export async function startScriptedModel({ tasks, turns, endings }: ScriptedModelInput): Promise<ScriptedModel> {
  const boxes = new Map<string, Map<string, number>>()
  const faults: string[] = []
  const waiting: { answers: number; resolve: () => void }[] = []
  const addBox = (taskId: string, box: string, lines: number): void => {
    const ofTask = boxes.get(taskId) ?? new Map<string, number>()
    boxes.set(taskId, ofTask.set(box, Math.max(lines, ofTask.get(box) ?? 0)))
  }
  const answerTo = (request: SeenRequest, number: number): Answer => {
    for (const one of waiting) if (number >= one.answers) one.resolve()
    const messages = request.body['messages'] as Message[]
    const asked = messages.map(({ content }) => textOf(content)).join('\n')
    const task = tasks.find((one) => asked.includes(one.task.statement.trim()))
    if (task === undefined) return refuse(faults, 'no task has a statement that the request holds')
    const { taskId } = task.task
    const turn = messages.filter(({ role }) => role === 'assistant').length
    if (turn > 0 && turn <= turns) {
      const noted = notedIn(textOf(messages.at(-1)?.content))
      if (noted === null) faults.push(`${taskId} turn ${turn - 1}: the output is not there`)
      else {
        addBox(taskId, noted.box, noted.lines)
        const isRight = noted.lines === turn && noted.hash === expectedHash(task, turn - 1)
        if (!isRight) faults.push(`${taskId} turn ${turn - 1}: ${noted.lines} commands ran in its container`)
      }
    }
    if (turn < turns) return says(request, { command: commandOf(task, turn, turns) })
    const ending = endings[turn - turns]
    if (ending === undefined) return refuse(faults, `${taskId}: asked again after the work was handed in`)
    return says(request, ending)
  }
  const endpoint = await startScriptedEndpoint(answerTo)
  return {
    url: endpoint.url,
    answers: () => endpoint.seen.length,
    boxes,
    addBox,
    faults,
    after: (answers) => new Promise<void>((resolve) => void waiting.push({ answers, resolve })),
    close: () => endpoint.close(),
  }
}

/** A tool call if the runner offers tools, a block of text otherwise. */
function says(request: SeenRequest, ending: Ending): Answer {
  const tools = (request.body['tools'] ?? []) as { function: { name: string; parameters: { properties: object } } }[]
  if (tools.length === 0) return plain('command' in ending ? `Next:\n${FENCE}command\n${ending.command}\n${FENCE}` : '')
  const shell = tools.find((tool) => tool.function.name === 'bash')
  const parameter = Object.keys(shell?.function.parameters.properties ?? {})[0] ?? 'command'
  const call =
    'command' in ending
      ? { name: 'bash', arguments: JSON.stringify({ [parameter]: ending.command }) }
      : { name: ending.tool, arguments: JSON.stringify(ending.arguments) }
  const id = `call_${Math.random().toString(36).slice(2)}`
  const message = { role: 'assistant', content: 'Next:', tool_calls: [{ id, type: 'function', function: call }] }
  return (incoming, response) =>
    json(200, {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1,
      model: incoming.body['model'],
      choices: [{ index: 0, message, finish_reason: 'tool_calls' }],
      usage: USAGE,
    })(incoming, response)
}

/** Longer than any fence in a patch. */
const FENCE = '`'.repeat(20)
const USAGE = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }

function refuse(faults: string[], why: string): Answer {
  faults.push(why)
  return json(400, { error: { message: why, type: 'invalid_request_error' } })
}

/** Content is a text or a list of parts. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part: { text?: string }) => part.text ?? '').join('\n')
}
