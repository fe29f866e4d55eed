import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type LaneWork, playLanes } from './play-lanes.ts'

/** Lanes that write down when they begin and end; the test ends each. */
function scriptedLanes(): {
  work: LaneWork
  log: string[]
  end: (name: keyof LaneWork, error?: Error) => Promise<void>
} {
  const log: string[] = []
  const open = new Map<string, PromiseWithResolvers<void>>()
  const lane = (name: keyof LaneWork) => (): Promise<void> => {
    log.push(`${name} begins`)
    const ending = Promise.withResolvers<void>()
    open.set(name, ending)
    return ending.promise
  }
  return {
    work: { stack: lane('stack'), units: lane('units'), apart: lane('apart'), trainer: lane('trainer') },
    log,
    async end(name, error) {
      log.push(`${name} ends`)
      if (error === undefined) open.get(name)?.resolve()
      else open.get(name)?.reject(error)
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

test('the lane on the stack begins with the units; the other system tests and the trainer’s follow the units beside it', async () => {
  const { work, log, end } = scriptedLanes()
  const played = playLanes(work)
  await end('units')
  await end('apart')
  await end('stack')
  await end('trainer')
  await played
  assert.deepEqual(log, [
    'stack begins',
    'units begins',
    'units ends',
    'apart begins',
    'trainer begins',
    'apart ends',
    'stack ends',
    'trainer ends',
  ])
})

test('a lane breaks while others run: its error comes when they have ended', async () => {
  const { work, log, end } = scriptedLanes()
  let said: unknown = null
  const played = playLanes(work).catch((error: unknown) => {
    said = error
  })
  const broken = new Error('broken')
  await end('stack', broken)
  await end('units')
  await end('apart')
  assert.equal(said, null)
  await end('trainer')
  await played
  assert.equal(said, broken)
  assert.equal(log.at(-1), 'trainer ends')
})
