/**
 * All that needs a GPU, as one command that prepares what it needs by itself: set-up, correctness (devices, dtypes, packing, context
 * parallel ranks), speed with each switch of the trainer, memory against the planner, and RFT + DAPO with a live vLLM on the trainer's own
 * GPU. The trainer's environment comes from its lock, vLLM by its version, models are made here; nothing else is fetched.
 *
 *   npm run bench:gpu -- [--minutes 9] [--only PREFIX,…] [--dry] [--state DIRECTORY] [--out bench/results/gpu.json]
 *   npm run bench:gpu -- --list
 *
 * It works in pieces of at most ten minutes on a GPU. What has ended is kept (`--state`, by default in the cache), so a call that was killed, or that
 * ended after `--minutes`, goes on where it was; pieces of other code or of another device are measured again. Without a GPU, or with
 * `--dry`, each piece is really executed, small, on the CPU or on tensors without numbers; results say `dry` and hold no figure of speed.
 *
 * Exit 1 where a piece failed or a limit was broken, 2 where nothing was compared, 3 where pieces are left: call it again.
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
// What a chosen piece needs is run too.
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
    // Of the whole list: a call may have chosen some.
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

/** A dry piece took the time of a small model on a CPU. */
function withoutTimes(record: PieceRecord): Record<string, unknown> {
  const { seconds: _seconds, startedAt: _startedAt, ...facts } = record
  return { dry: true, ...facts }
}
