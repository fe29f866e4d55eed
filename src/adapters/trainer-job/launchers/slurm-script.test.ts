import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { exampleAttempt, exampleScript } from '../../../../test/support/launcher-examples.ts'
import { runInSpan } from '../../../platform/current-trace.ts'
import { slurmScript } from './slurm-script.ts'

test('the example in infra/slurm equals what the launcher submits, and bash can parse it', async () => {
  const script = exampleScript()
  assert.equal(await readFile(join(import.meta.dirname, '../../../../infra/slurm/step.sh'), 'utf8'), script)
  execFileSync('bash', ['-n'], { input: script })
})

test('one rank needs neither torchrun nor a rendezvous, and unusual paths stay one word', () => {
  const attempt = exampleAttempt({ nodes: 1, ranksPerNode: 1 })
  const job = { ...attempt.job, jobDirectory: `/shared/it's here/$HOME` }
  const script = slurmScript({ options: null, command: { python: 'python3' }, attempt: { ...attempt, job } })
  assert.doesNotMatch(script, /torch\.distributed\.run|MASTER/)
  execFileSync('bash', ['-n'], { input: script })
  const line = script.split('\n').find((text) => text.startsWith('srun')) ?? ''
  // The step's command, said instead of run.
  const said = execFileSync('bash', ['-c', `srun() { bash -c "\${5/exec/echo}"; }\n${line} wait`], {
    encoding: 'utf8',
    env: { HOME: '/nowhere', PATH: process.env['PATH'] ?? '' },
  })
  assert.equal(said, `python3 -m longhaul_trainer step --spec /shared/it's here/$HOME/spec.1.json\n`)
})

test('a job that is launched within a trace has the trace in its environment', () => {
  const context = { traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8), sampled: true }
  const traced = runInSpan({ context, note: () => undefined }, exampleScript)
  assert.match(traced, new RegExp(`^export TRACEPARENT='?00-${context.traceId}-${context.spanId}-01'?$`, 'm'))
})
