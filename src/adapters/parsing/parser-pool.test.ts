import assert from 'node:assert/strict'
import { after, test } from 'node:test'

import { createParserPool, ParserOverrun, type ParserPool } from './parser-pool.ts'
import { gradeLog } from '../../grading/grade-log.ts'
import { LOG_PROFILES } from '../../grading/log-profiles.ts'

const pools: ParserPool[] = []
after(() => Promise.all(pools.map((pool) => pool.dispose())))

function newPool(options: Parameters<typeof createParserPool>[0] = {}): ParserPool {
  const pool = createParserPool({ threads: 1, ...options })
  pools.push(pool)
  return pool
}

const log = (text: string): Uint8Array => Buffer.from(text)
const request = (text: string) =>
  ({ profile: 'rebench-v2', parser: 'parse_log_pytest', log: log(text), tests: null }) as const

test('a log parsed in a thread gives the same result as here, including maps and bytes', async () => {
  const pool = newPool()
  const text = 'PASSED a\nFAILED __proto__ - x\n'
  const read = await pool.parse('gradeNamedLog', request(text))
  assert.deepEqual(read, gradeLog({ ...request(text), profile: LOG_PROFILES['rebench-v2'] }))
  assert.deepEqual(await pool.parse('patchSigns', { patch: log('>>>>> x'), goldPatch: '' }), ['forged-results'])
})

test('a text over the deadline ends its thread, and the next text gets another one', async () => {
  const pool = newPool({ deadlineMs: 1 })
  await assert.rejects(pool.parse('gradeNamedLog', request('PASSED a\n'.repeat(500_000))), ParserOverrun)
  const slow = newPool({ deadlineMs: 600_000 })
  const [first, second] = await Promise.all([
    slow.parse('gradeNamedLog', request('PASSED a\n')),
    slow.parse('gradeNamedLog', request('PASSED b\n')),
  ])
  assert.deepEqual([first.kind, second.kind], ['graded', 'graded'])
})

test('a text over the memory limit ends its thread and not the process', async () => {
  const pool = newPool({ memoryMiB: 24, deadlineMs: 600_000 })
  const many = Array.from({ length: 400_000 }, (_, index) => `PASSED test_${index}`).join('\n')
  await assert.rejects(pool.parse('gradeNamedLog', request(many)), ParserOverrun)
  assert.equal((await pool.parse('gradeNamedLog', request('PASSED a\n'))).kind, 'graded')
})

test('the error of a parser arrives unchanged, and the thread continues', async () => {
  const pool = newPool()
  const task = { failToPass: [], passToPass: [], gradingProfile: 'none' } as never
  await assert.rejects(pool.parse('judgeRun', task, { kind: 'ran', log: log('') }), TypeError)
  assert.deepEqual(await pool.parse('commandSigns', []), [])
})

test('only the bytes of the log are sent to the thread, and the caller keeps them', async () => {
  const pool = newPool()
  const whole = Buffer.from('PASSED a\nPASSED b\n')
  const part = whole.subarray(0, 9)
  const read = await pool.parse('gradeNamedLog', { ...request(''), log: part })
  assert.deepEqual(read.kind === 'graded' ? [...read.statuses.keys()] : [], ['a'])
  assert.equal(whole.toString(), 'PASSED a\nPASSED b\n')
})
