import type { MetricMeter } from '@temporalio/common'
import type { TelemetryOptions } from '@temporalio/worker'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { purposeOf } from '../contracts/episode-purpose.ts'
import type { ActionRecord, EpisodeRecord, ObservationRecord, VerdictRecord } from '../contracts/episodes.types.ts'
import { LonghaulError, toLonghaulError } from '../contracts/errors.ts'
import type { SandboxHost } from '../contracts/sandbox.types.ts'
import type { TrainingRecord } from '../contracts/training.types.ts'
import { quoteAddress } from '../platform/quote-address.ts'
import type { Interposers } from './connect.ts'

/**
 * Configures the export of a worker's metrics, together with the SDK's own (`temporal_…`): Prometheus scrapes LONGHAUL_METRICS_ADDRESS
 * (`127.0.0.1:9464`) at /metrics; LONGHAUL_METRICS_OTLP (`http://collector:4317`) is the address of an OpenTelemetry collector. Without
 * either variable nothing is exported.
 * @throws LonghaulError `Config.Invalid`
 */
export function metricsOptions(env: NodeJS.ProcessEnv = process.env): Pick<TelemetryOptions, 'metrics'> {
  const address = env['LONGHAUL_METRICS_ADDRESS'] ?? ''
  const collector = env['LONGHAUL_METRICS_OTLP'] ?? ''
  if (address !== '' && collector !== '') {
    throw invalid('Expected LONGHAUL_METRICS_ADDRESS or LONGHAUL_METRICS_OTLP, got both')
  }
  if (address !== '') {
    if (!/^(?:[\d.]+|\[[\da-f:]+\]):\d{1,5}$/i.test(address)) {
      throw invalid(`Expected LONGHAUL_METRICS_ADDRESS to be IP:PORT, got ${quoteAddress(address)}`)
    }
    return {
      metrics: {
        prometheus: { bindAddress: address, useSecondsForDurations: true, histogramBucketOverrides: BUCKETS },
      },
    }
  }
  if (collector !== '') {
    if (!/^(?:https?|grpcs?):\/\//.test(collector)) {
      throw invalid(`Expected LONGHAUL_METRICS_OTLP to be a URL, got ${quoteAddress(collector)}`)
    }
    return { metrics: { otel: { url: collector, useSecondsForDurations: true, histogramBucketOverrides: BUCKETS } } }
  }
  return {}
}

function invalid(message: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message })
}

/** Upper bounds in seconds. A sample of a large model takes minutes, and the recipe limits a command. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800]
const BUCKETS = {
  longhaul_sample_seconds: SECONDS,
  longhaul_command_seconds: SECONDS,
  longhaul_grading_seconds: SECONDS,
  longhaul_sandbox_open_seconds: SECONDS,
}

/**
 * Counts an event of a run when this process is the first to write its record. A repeated attempt, a late worker and a restarted run
 * write no second record, so the sums over all workers count each turn and each episode once.
 */
export function meteredStore(store: ArtifactStore, meter: MetricMeter): ArtifactStore {
  const count = recordCounters(meter)
  const show = trainingGauges(meter)
  return {
    ...store,
    async claimRecord(key, record) {
      const claimed = await store.claimRecord(key, record)
      if (claimed.won) neverFailing(() => count(record))
      return claimed
    },
    async putRecord(key, record) {
      const ref = await store.putRecord(key, record)
      // Gauges and not sums, so the same record again changes nothing.
      if ('schema' in record && record.schema === 'longhaul.training/1') {
        neverFailing(() => show(record as unknown as TrainingRecord))
      }
      return ref
    },
  }
}

/** The record is already written. If an exporter refused a figure and the error were thrown, the activity would be retried forever. */
function neverFailing(count: () => void): void {
  try {
    count()
  } catch (error) {
    process.emitWarning(`a metric was not counted: ${String(error)}`, 'LonghaulMetrics')
  }
}

/** Adds metrics beneath a worker's other wrappers. */
export function metered(between: Interposers, meter: MetricMeter): Interposers {
  return {
    ...between,
    store: (store) => between.store(meteredStore(store, meter)),
    sandbox: (host) => between.sandbox(meteredSandbox(host, meter)),
  }
}

type Counted = ActionRecord | ObservationRecord | VerdictRecord | EpisodeRecord | { schema?: undefined }

function recordCounters(meter: MetricMeter): (record: Counted) => void {
  const samples = meter.createHistogram('longhaul_sample_seconds', 'float', 's', 'time that a policy took for one turn')
  const tokens = meter.createCounter('longhaul_sampled_tokens_total', 'tokens', 'ids that policies sampled')
  const turns = meter.createCounter('longhaul_turns_total', 'turns', 'committed turns by what became of the command')
  const commands = meter.createHistogram('longhaul_command_seconds', 'float', 's', 'time of one command in a sandbox')
  const gradings = meter.createHistogram('longhaul_grading_seconds', 'float', 's', 'time of one grading in a container')
  const audits = meter.createCounter('longhaul_audits_total', 'gradings', 'second opinions on verdicts')
  const episodes = meter.createCounter('longhaul_episodes_total', 'episodes', 'finished episodes')
  const hacks = meter.createCounter(
    'longhaul_suspected_hacks_total',
    'episodes',
    'episodes with a sign of reward hacking',
  )
  return (record) => {
    switch (record.schema) {
      case 'longhaul.action/1':
        samples.record(record.sampleMs / 1000)
        tokens.add(record.ids.length)
        return
      case 'longhaul.observation/1':
        turns.add(1, { outcome: record.execution?.reason ?? 'format-error' })
        if (record.execution !== null) commands.record(record.execution.wallMs / 1000)
        return
      case 'longhaul.verdict/1':
        if (record.from === 'gate') return
        gradings.record(record.gradeMs / 1000, { profile: record.profile, verdict: record.kind })
        if (record.audit !== undefined) audits.add(1, { outcome: record.audit.outcome })
        return
      case 'longhaul.episode-result/1':
        episodes.add(1, {
          purpose: purposeOf(record.stage).kind,
          disposition: record.disposition,
          verdict: record.verdict ?? 'none',
          failure: record.failure ?? 'none',
        })
        if (record.suspectedHack) hacks.add(1, { purpose: purposeOf(record.stage).kind })
        return
      default:
    }
  }
}

/** The loss is the only figure with a sign. The SDK's gauges accept no negative value, so a label separates the parts above and
 *  below zero. */
const LOSS = 'longhaul_training_loss'
/** Maps figures of a training record, which are never negative, to metrics. */
const TRAINING = {
  global_step: 'longhaul_training_step',
  grad_norm: 'longhaul_training_grad_norm',
  entropy: 'longhaul_training_entropy',
  k3: 'longhaul_training_sampler_kl',
  ess: 'longhaul_training_effective_samples',
} as const

function trainingGauges(meter: MetricMeter): (record: TrainingRecord) => void {
  const gauges = Object.entries(TRAINING).map(
    ([figure, name]) => [figure, meter.createGauge(name, 'float', '', `${figure} of the last optimizer step`)] as const,
  )
  const loss = meter.createGauge(LOSS, 'float', '', 'loss of the last optimizer step: positive minus negative')
  const alarms = meter.createGauge('longhaul_training_alarms', 'int', 'alarms', 'alarms of the last training job')
  return ({ stage, steps, alarms: raised }) => {
    const of = { purpose: purposeOf(stage).kind }
    for (const [figure, gauge] of gauges) {
      const value = steps.at(-1)?.[figure]
      if (isFigure(value)) gauge.set(value, of)
    }
    const last = steps.at(-1)?.['loss']
    if (isFigure(last)) {
      loss.set(Math.max(last, 0), { ...of, sign: 'positive' })
      loss.set(Math.max(-last, 0), { ...of, sign: 'negative' })
    }
    alarms.set(raised.length, of)
  }
}

function isFigure(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value)
}

/** Failed openings are counted by their code. Most of them are placed again and leave no record. */
function meteredSandbox(host: SandboxHost, meter: MetricMeter): SandboxHost {
  const openings = meter.createHistogram(
    'longhaul_sandbox_open_seconds',
    'float',
    's',
    'time until a sandbox was ready',
  )
  const failures = meter.createCounter('longhaul_sandbox_failures_total', 'openings', 'sandboxes that did not open')
  return {
    ...host,
    async open(input, signal) {
      const startedMs = performance.now()
      try {
        const handle = await host.open(input, signal)
        openings.record((performance.now() - startedMs) / 1000, { role: input.role })
        return handle
      } catch (error) {
        if (!signal.aborted) failures.add(1, { role: input.role, code: toLonghaulError(error).code })
        throw error
      }
    },
  }
}
