/** The replies of the scripted policy: a function of task, index, turn and the request's seed, never of time or of the run's name. */
import { composeTask } from '../../../src/adapters/datasets/synthetic/compose.ts'

export interface ReplyInput {
  taskId: string
  /** Index within the group. */
  index: number
  turn: number
  seed: number
}

/** Number of turns of an episode that submits its work. */
const LAST_TURN = 6

/**
 * Every episode appends lines whose text contains the current number of lines, so a command that ran twice or never changes all later
 * ones. Of the four episodes of two neighbouring tasks, two repair their task, one breaks it, and one never submits.
 */
export function scriptedReply({ taskId, index, turn, seed }: ReplyInput): string {
  const number = Number(/\d+$/.exec(taskId)?.[0] ?? 0)
  const kind = (2 * number + index) % 4
  const { path, definitionLine, wrongLine, rightText } = taskOf(taskId).targetLine
  switch (turn) {
    case 0:
      return said('First line.', append(0))
    case 1:
      return variation(seed)
    case 2:
      return said('Wait a moment.', `sleep 0.6; ${append(2)}`)
    case 3:
      return said('Look.', `open /testbed/${path} ${definitionLine}`)
    case 4: {
      const text = kind % 2 === 0 ? rightText : rightText.replace(/\S.*$/, 'return None')
      return said('Repair.', `edit ${wrongLine}:${wrongLine} <<EOF\n${text}\nEOF`)
    }
    case 5:
      return said('Another line.', append(5))
    case LAST_TURN:
      return kind === 3 ? said('Not yet.', append(turn)) : said('Done.', 'submit')
    default:
      return said('Still not.', append(turn))
  }
}

/** One of several commands whose state a sandbox must carry over, chosen by the seed. */
function variation(seed: number): string {
  switch (seed % 6) {
    case 0:
      return said('Set something.', `export CHAOS_MARK=${seed % 97}; ${append(1)}`)
    case 1:
      return said('Go elsewhere.', `mkdir -p /testbed/deep && cd /testbed/deep; ${append(1)}`)
    case 2:
      return said('Fail.', `${append(1)}; exit 3`)
    case 3:
      return 'I forgot the block.'
    case 4:
      return said('Commit.', `${append(1)}; git -c user.name=a -c user.email=a@b commit -qam one; git status --short`)
    default:
      return said('Remove.', `${append(1)}; umask 027; touch made; rm -f made`)
  }
}

function append(turn: number): string {
  const file = '/testbed/notes.txt'
  return `echo "turn ${turn} after $(cat ${file} 2>/dev/null | wc -l)" >>${file}; tail -n 1 ${file}`
}

function said(thought: string, command: string): string {
  return `${thought}\n\`\`\`command\n${command}\n\`\`\``
}

/** `synthetic__eval-000003` */
function taskOf(taskId: string) {
  const [, split = 'eval', number = '0'] = /__(\w+)-(\d+)$/.exec(taskId) ?? []
  return composeTask({ family: 'one-wrong-line', seed: 1, split: split as 'train' | 'eval', index: Number(number) })
}
