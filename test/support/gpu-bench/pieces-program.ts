/**
 * A measurement in pieces that prints which of them ran: `node pieces-program.ts DIRECTORY CODE DEVICE`. Files in the directory
 * change it: `hang` blocks the second piece, `fail` fails the third, which the fourth needs.
 */
import { appendFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { exitCodeOf, type Piece, runPieces } from '../../../bench/support/gpu/pieces.ts'

const [, , directory = '', codeHash = '', device = ''] = process.argv
const is = (name: string): boolean => existsSync(join(directory, name))
const ran = (name: string): Promise<void> => appendFile(join(directory, 'ran'), `${name}\n`)
const result = { compared: 1, violations: [], facts: {} }

const pieces: Piece[] = [
  { name: 'one', minutes: 1, run: () => ran('one').then(() => result) },
  {
    name: 'two',
    minutes: is('short') ? 0.005 : 1,
    async run(signal) {
      await ran('two')
      if (is('hang')) await sleep(3_600_000, undefined, { signal })
      return result
    },
  },
  {
    name: 'three',
    minutes: 1,
    async run() {
      await ran('three')
      if (is('fail')) throw new Error('the device fell off the bus')
      return { ...result, violations: is('break') ? ['7 is more than 5'] : [], compared: is('empty') ? 0 : 1 }
    },
  },
  { name: 'four', after: ['three'], minutes: 1, run: () => ran('four').then(() => result) },
]
const end = await runPieces({ pieces, key: { codeHash, device }, directory, say: (line) => console.log(line) })
process.exitCode = exitCodeOf(
  end,
  pieces.map(({ name }) => name),
)
