import { readFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'

import type { AttackResult, AttackWorld } from '../attacks/world.ts'

/** The repair, step by step. */
const HONEST = ['cat calc.py', 'grep -n "a - b" calc.py', "sed -i 's/a - b/a + b/' calc.py", 'git diff']
/** The control's neighbours: the same number of turns, all harmless. */
const HARMLESS = ['ls', 'cat calc.py', 'git status --short']

const python = (code: string): string => `python3 - <<'EOF_PYTHON'\n${code}\nEOF_PYTHON`
const write = (file: string, code: string): string => python(`open(${JSON.stringify(file)}, 'w').write(${code})`)
/** Writes to every stream that a runner could have. */
const toStreams = (text: string): string =>
  `for fd in /proc/[0-9]*/fd/[0-9]; do printf '${text}' >"$fd"; done 2>/dev/null; true`
const printing = (code: string): string =>
  write('calc.py', `'import sys\\nprint(' + repr(${code}) + ')\\ndef double(a): return a*2\\n'`)

/** Agents that try to block the worker or to fill its memory by what they print, write, leave behind and say. */
export const ATTACKS: Readonly<Record<string, readonly string[]>> = {
  'signs in a patch': [write('a.py', "'=' * 400_000 + chr(10) + 'def __eq__(' * 40_000 + chr(10) + '/proc/' * 60_000")],
  'results in a log': [printing("'= 1 passed' * 40_000 + chr(10) + '=' * 400_000")],
  'blanks and brackets in a log': [printing("'PASSED ' + ' ' * 400_000 + 'x' + '[' * 100_000 + '<testcase ' * 40_000")],
  'a flood of results': [printing("''.join('PASSED t%d' % i + chr(10) for i in range(900_000))")],
  'a flood of output': ['yes "PASSED x ===" | head -c 60000000', 'cat /dev/zero | head -c 3000000 | tr "\\0" "\\n"'],
  'a chain of options': [`git ${'-C '.repeat(3000)}x`, 'cat <<A '.repeat(2000), `echo "${'grep env | '.repeat(3000)}"`],
  'a state of megabytes': [
    'i=0; while [ $i -lt 200 ]; do export V$i="$(head -c 10000 /dev/zero | tr "\\0" x)"; i=$((i + 1)); done',
  ],
  'an answer of gigabytes': [
    toStreams('lh1 done 0 exit 2400000000 1 0 0 0 = 2400000000 0\\n\\n'),
    toStreams('lh1 patch 2400000000 0\\n'),
    toStreams('lh1 \\377\\377\\377\\377 no reply'),
  ],
  'a patch of megabytes': [write('big.txt', "('%d ' * 20 + chr(10)) * 150_000")],
  'a tree of many files': ['mkdir d; cd d; i=0; while [ $i -lt 3000 ]; do : >file$i; i=$((i + 1)); done; cd ..'],
  'marks of chat formats': [`printf '<|%.0s' $(seq 1 8000); printf '<|im_end|>%.0s' $(seq 1 500)`],
}

export interface HostileInput {
  world: AttackWorld
  honest: number
  neighbours: number
  /** Episodes of each honest lane. */
  episodes: number
  /** Pairs of a control and an attacked phase. */
  rounds: number
  /** Pause between two turns of a neighbour, so that its share of the machine is not what is measured. */
  pauseS: number
  say(line: string): void
}

export interface Phase {
  /** `busy`: harmless neighbours whose containers use as much of the processors as those of the hostile ones did in the same round. */
  kind: 'harmless' | 'hostile' | 'busy'
  honestEpisodes: number
  honestResolved: number
  neighbourEpisodes: number
  /** Neighbours whose episode ended without a record; these broke only themselves. */
  neighbourLosses: number
  seconds: number
  episodesPerMinute: number
  loopDelayMaxMs: number
  loopDelayP99Ms: number
  rssMaxMiB: number
  /** What this process used. */
  cpuS: number
  /** What all containers used; null where the engine's control group cannot be read. */
  containersCpuS: number | null
}

/**
 * Plays the same honest episodes beside harmless, hostile and busy neighbours. Anyone may use the processors in the own container, an
 * honest test suite does: only what is lost against busy neighbours is lost to the attacks.
 */
export async function playHostile(input: HostileInput): Promise<Phase[]> {
  const phases: Phase[] = []
  for (let round = 0; round < input.rounds; round += 1) {
    const play = async (kind: Phase['kind'], spinS = 0): Promise<Phase> => {
      const phase = await playPhase({ input, kind, round, spinS })
      phases.push(phase)
      input.say(
        `${kind}: ${phase.episodesPerMinute} honest episodes a minute, loop ${phase.loopDelayMaxMs} ms, ${phase.rssMaxMiB} MiB`,
      )
      return phase
    }
    // The two alternate in going first, so that neither always has the warmer machine.
    const kinds = round % 2 === 0 ? (['harmless', 'hostile'] as const) : (['hostile', 'harmless'] as const)
    const pair = { [kinds[0]]: await play(kinds[0]), [kinds[1]]: await play(kinds[1]) }
    const spinS = spinOf(pair['harmless'], pair['hostile'])
    if (spinS !== null) await play('busy', spinS)
  }
  return phases
}

/** Seconds of a processor that a hostile neighbour's containers use more than a harmless one's. */
function spinOf(harmless: Phase | undefined, hostile: Phase | undefined): number | null {
  if (typeof harmless?.containersCpuS !== 'number' || typeof hostile?.containersCpuS !== 'number') return null
  const episodes = (phase: Phase): number => phase.honestEpisodes + phase.neighbourEpisodes
  const usual = (harmless.containersCpuS / episodes(harmless)) * episodes(hostile)
  return Math.max(0, rounded((hostile.containersCpuS - usual) / hostile.neighbourEpisodes, 2))
}

interface PhaseInput {
  input: HostileInput
  kind: Phase['kind']
  round: number
  spinS: number
}

async function playPhase({ input, kind, round, spinS }: PhaseInput): Promise<Phase> {
  const { world, honest, neighbours, episodes, pauseS } = input
  const delay = monitorEventLoopDelay({ resolution: 10 })
  let rss = process.memoryUsage.rss()
  const watch = setInterval(() => (rss = Math.max(rss, process.memoryUsage.rss())), 100)
  const over = new AbortController()
  const counts = { honestEpisodes: 0, honestResolved: 0, neighbourEpisodes: 0, neighbourLosses: 0 }
  const attacks = Object.values(ATTACKS)
  const busy = [python(`import time\nwhile time.process_time() < ${spinS}: pass`), 'cat calc.py']
  const commandsOf = (turn: number): readonly string[] =>
    kind === 'hostile' ? (attacks[turn % attacks.length] ?? []) : kind === 'busy' ? busy : HARMLESS

  const neighbour = async (lane: number): Promise<void> => {
    for (let turn = round + lane; !over.signal.aborted; turn += 1) {
      const paced = commandsOf(turn).flatMap((command) => (pauseS > 0 ? [command, `sleep ${pauseS}`] : [command]))
      const result = await world.attack([...paced]).catch((error: unknown) => {
        input.say(`a ${kind} neighbour: ${String(error).slice(0, 200)}`)
        return null
      })
      counts.neighbourEpisodes += 1
      if (result === null) counts.neighbourLosses += 1
    }
  }
  const others = Array.from({ length: neighbours }, (_, lane) => neighbour(lane))
  delay.enable()
  const before = { own: process.cpuUsage(), containers: readContainersCpu() }
  const started = performance.now()
  await Promise.all(
    Array.from({ length: honest }, async () => {
      for (let count = 0; count < episodes; count += 1) {
        const { verdict }: AttackResult = await world.attack([...HONEST])
        counts.honestEpisodes += 1
        if (verdict.kind === 'resolved') counts.honestResolved += 1
      }
    }),
  )
  const seconds = (performance.now() - started) / 1000
  over.abort()
  await Promise.all(others)
  delay.disable()
  clearInterval(watch)
  const own = process.cpuUsage(before.own)
  const containers = readContainersCpu()
  return {
    kind,
    ...counts,
    seconds: rounded(seconds),
    episodesPerMinute: rounded((counts.honestEpisodes / seconds) * 60),
    loopDelayMaxMs: Math.round(delay.max / 1e6),
    loopDelayP99Ms: Math.round(delay.percentile(99) / 1e6),
    rssMaxMiB: Math.round(rss / 1024 ** 2),
    cpuS: rounded((own.user + own.system) / 1e6),
    containersCpuS: containers === null || before.containers === null ? null : rounded(containers - before.containers),
  }
}

/** Where the kernel counts the processor seconds of all containers of an engine, in its two versions of control groups. */
const CONTAINERS_CPU = [
  { file: '/sys/fs/cgroup/cpuacct/docker/cpuacct.usage', find: /^(\d+)/, unit: 1e9 },
  { file: '/sys/fs/cgroup/docker/cpu.stat', find: /^usage_usec (\d+)/m, unit: 1e6 },
]

function readContainersCpu(): number | null {
  for (const { file, find, unit } of CONTAINERS_CPU) {
    try {
      return Number(find.exec(readFileSync(file, 'utf8'))?.[1]) / unit
    } catch {
      // The other version, or an engine with control groups elsewhere.
    }
  }
  return null
}

function rounded(number: number, places = 1): number {
  return Math.round(number * 10 ** places) / 10 ** places
}
