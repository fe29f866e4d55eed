/**
 * Every measurement that needs a GPU, as one command that prepares everything itself: set-up, correctness (devices, dtypes, packing,
 * context parallel ranks), speed with each switch of the trainer, memory against the planner, and RFT + DAPO with a live vLLM on the
 * trainer's own GPU. The trainer's environment comes from its lock, vLLM is pinned by version, models are generated here; nothing
 * else is downloaded.
 *
 *   npm run bench:gpu -- [--minutes 9] [--only PREFIX,…] [--dry] [--state DIRECTORY] [--out bench/results/gpu.json]
 *   npm run bench:gpu -- --list
 *
 * It runs in pieces of at most ten minutes on a GPU. Finished pieces are stored (`--state`, by default in the cache), so a call that
 * was killed, or that ended after `--minutes`, is continued by the next one; pieces of other code or of another device are measured
 * again. Without a GPU, or with `--dry`, each piece runs at a small size on the CPU or on tensors without data; its results say `dry`
 * and contain no speed.
 *
 * Exit 1 if a piece failed or a limit was exceeded, 2 if nothing was compared, 3 if pieces are left: call it again.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stackPaths } from '../src/stack/paths.ts'
import { benchArguments, refuseArguments } from './support/arguments.ts'
import { endWith2OnError } from './support/conclude.ts'
import { describeDevice, findGpu } from './support/gpu/device.ts'
import { livePieces } from './support/gpu/live-run.ts'
import { exitCodeOf, type PieceRecord, runPieces } from './support/gpu/pieces.ts'
import { trainerPieces } from './support/gpu/trainer-pieces.ts'
import { interruption } from './support/interruption.ts'
import { codeHash, MEASURED } from './support/measured-code.ts'
import { versions } from './support/versions.ts'

const { values } = benchArguments({
  options: {
    minutes: { type: 'string' },
    only: { type: 'string' },
    dry: { type: 'boolean', default: false },
    state: { type: 'string' },
    out: { type: 'string' },
    list: { type: 'boolean', default: false },
  },
})
endWith2OnError()
const minutes = values.minutes === undefined ? undefined : Number(values.minutes)
if (minutes !== undefined && !(minutes > 0)) refuseArguments(`Expected --minutes to be above 0, got ${values.minutes}`)

const device = values.dry ? null : findGpu()
const directory = values.state ?? join(stackPaths().cacheDir, 'bench-gpu')
const scratch = join(directory, 'scratch')
const world = { device, scratch }
const all = [...trainerPieces(world), ...livePieces(world)]
const prefixes = values.only?.split(',') ?? ['']
const chosen = all.filter(({ name }) => prefixes.some((prefix) => name.startsWith(prefix)))
if (chosen.length === 0)
  refuseArguments(`Expected --only to begin names of pieces, got ${values.only}; --list prints them`)
// A chosen piece also runs the pieces that it needs.
const wanted = new Set(chosen.map(({ name }) => name))
for (const { name, after = [] } of all.toReversed()) if (wanted.has(name)) for (const one of after) wanted.add(one)
const pieces = all.filter(({ name }) => wanted.has(name))
if (values.list) {
  for (const { name } of pieces) console.log(name)
  process.exit(0)
}

await mkdir(scratch, { recursive: true })
console.log(`device  ${describeDevice(device)}`)
const key = { codeHash: codeHash(MEASURED['gpu']?.sources ?? []), device: describeDevice(device) }
const end = await runPieces({
  pieces,
  key,
  directory,
  minutes,
  signal: interruption(),
  say: (line) => console.log(line),
})
const names = pieces.map(({ name }) => name)
const status = exitCodeOf(end, names)
if (values.out !== undefined) {
  const records = names.flatMap((name) => {
    const record = end.state.pieces[name]
    return record === undefined ? [] : [[name, device === null ? withoutTimes(record) : record] as const]
  })
  const report = {
    bench: 'gpu',
    date: new Date().toISOString(),
    dry: device === null,
    device: device ?? 'none',
    ...versions(),
    limits: 'bench/support/gpu/trainer-pieces.ts',
    // All pieces, even if the call chose some.
    left: all.map(({ name }) => name).filter((name) => end.state.pieces[name]?.status !== 'done'),
    pieces: Object.fromEntries(records),
  }
  await writeFile(values.out, `${JSON.stringify(report, null, 1)}\n`)
}
const ended = names.map((name) => end.state.pieces[name])
for (const [index, record] of ended.entries()) {
  if (record?.status === 'failed') console.error(`failed: ${names[index]}: ${record.error}`)
  else for (const violation of record?.violations ?? []) console.error(`broken: ${names[index]}: ${violation}`)
}
if (end.left.length > 0) console.error(`left: ${end.left.join(', ')}: call it again`)
if (status === 2) console.error('Nothing was compared')
process.exitCode = status

/** The time of a dry piece is that of a small model on a CPU. */
function withoutTimes(record: PieceRecord): Record<string, unknown> {
  const { seconds: _seconds, startedAt: _startedAt, ...facts } = record
  return { dry: true, ...facts }
}
