import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createProcessMeter } from './process-meter.ts'

const BEFORE_S = 0.5

/** Takes processor time, whatever else the machine does. */
function burn(seconds: number): void {
  const used = (): number => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  }
  const until = used() + seconds
  while (used() < until);
}

test('the processor time before the first check is not counted, all of it afterwards is', async () => {
  burn(BEFORE_S)
  const meter = createProcessMeter(async () => ({ own: [process.pid] }))
  await meter.look()
  await meter.look()
  assert.ok((meter.read()['own']?.cpuS ?? 0) < BEFORE_S, 'the time before the first check was counted')
  burn(BEFORE_S)
  await meter.look()
  assert.ok((meter.read()['own']?.cpuS ?? 0) >= BEFORE_S - 0.02)
})
