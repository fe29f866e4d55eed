/** A worker's metrics under a real Prometheus, and the shipped rules and dashboard under its own checker. */
import assert from 'node:assert/strict'
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { freePort, listenOnLoopback } from '../support/loopback.ts'
import { eventually } from '../support/hang.ts'
import { connectToOwnNamespace, needsServer } from '../support/own-namespace.ts'
import { findPrometheus } from '../support/prometheus.ts'

const root = join(import.meta.dirname, '../..')
const dashboards = join(root, 'infra/dashboards')
const found = findPrometheus()

describe('the shipped rules', { skip: typeof found === 'string' ? found : false }, () => {
  const promtool = (...args: string[]): string => {
    assert.ok(typeof found === 'object')
    return execFileSync(found.promtool, args, { cwd: dashboards, encoding: 'utf8', timeout: 60_000 })
  }

  test('promtool accepts the configuration and the alerts, and runs their tests', () => {
    assert.match(promtool('check', 'config', 'prometheus.yaml'), /SUCCESS/)
    assert.match(promtool('check', 'rules', 'alerts.yaml'), /6 rules found/)
    assert.match(promtool('test', 'rules', 'alerts.test.yaml'), /SUCCESS/)
  })
})

describe('a worker with metrics', { skip: needsServer }, () => {
  const directory = mkdtempSync(join(tmpdir(), 'longhaul-metrics-'))
  const running: ChildProcess[] = []
  let namespace = ''
  // The stack's own workers serve the others: this one has another store.
  before(async () => {
    const connection = await connectToOwnNamespace('metrics')
    namespace = connection.namespace
    await connection.close()
  })
  after(async () => {
    for (const child of running.toReversed()) {
      if (child.exitCode === null && child.kill('SIGTERM')) await once(child, 'exit')
    }
    rmSync(directory, { recursive: true, force: true })
  })

  const worker = (address: string): { child: ChildProcess; said: () => string } => {
    const env = {
      ...process.env,
      LONGHAUL_METRICS_ADDRESS: address,
      LONGHAUL_NAMESPACE: namespace,
      LONGHAUL_ARTIFACTS: join(directory, 'artifacts'),
      LONGHAUL_CACHE: directory,
      LONGHAUL_POLICY_URL: 'http://127.0.0.1:9',
    }
    const args = [join(root, 'bin/longhaul.mjs'), 'worker', '--role', 'artifacts']
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
    running.push(child)
    let text = ''
    child.stderr?.on('data', (bytes: Buffer) => (text += bytes.toString()))
    return { child, said: () => text }
  }

  test('Prometheus scrapes it and finds the SDK metrics that the dashboard uses', {
    skip: typeof found === 'string' ? found : false,
  }, async () => {
    assert.ok(typeof found === 'object')
    const [target, own] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`]
    const { child, said } = worker(target)
    const config = join(directory, 'prometheus.yaml')
    writeFileSync(
      config,
      JSON.stringify({
        scrape_configs: [
          {
            job_name: 'longhaul',
            scrape_interval: '1s',
            static_configs: [{ targets: [target], labels: { role: 'artifacts' } }],
          },
        ],
      }),
    )
    const args = [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(directory, 'tsdb')}`,
      `--web.listen-address=${own}`,
    ]
    running.push(spawn(found.prometheus, args, { stdio: 'ignore' }))
    const ask = async (query: string): Promise<unknown[]> => {
      const response = await fetch(`http://${own}/api/v1/query?query=${encodeURIComponent(query)}`, {
        signal: AbortSignal.timeout(10_000),
      })
      const { data } = (await response.json()) as { data: { result: unknown[] } }
      return data.result
    }
    await eventually(async () => {
      assert.equal(child.exitCode, null, said())
      assert.equal((await ask('up{role="artifacts"} == 1')).length, 1)
      assert.ok((await ask('temporal_worker_task_slots_used{worker_type="ActivityWorker"}')).length > 0)
      assert.ok((await ask('temporal_num_pollers')).length > 0)
    })
    const asked = new Set(readFileSync(join(dashboards, 'longhaul.json'), 'utf8').match(/temporal_[a-z_]+/g))
    assert.deepEqual([...asked].toSorted(), [
      'temporal_activity_schedule_to_start_latency_bucket',
      'temporal_worker_task_slots_used',
    ])
  })

  test('a port in use is one clear error', async () => {
    const holder = createServer()
    const port = await listenOnLoopback(holder)
    const { child, said } = worker(`127.0.0.1:${port}`)
    try {
      const [code] = await once(child, 'exit')
      assert.notEqual(code, 0)
      assert.match(said(), new RegExp(`LONGHAUL_METRICS_ADDRESS is "127\\.0\\.0\\.1:${port}", which cannot be used`))
      assert.doesNotMatch(said(), /\n\s+at /)
    } finally {
      await new Promise((resolve) => holder.close(resolve))
    }
  })
})
