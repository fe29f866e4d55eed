/**
 * Do hostile episodes slow down their neighbours, block the event loop or exhaust the memory of the process that serves them all?
 *
 *   npm run bench:hostile -- [--honest 16] [--hostile 16] [--rounds 4] [--episodes 3] [--pause 2] [--json] [--out bench/results/hostile.json]
 *
 * One process plays whole episodes as a sandbox worker does (open, turns, capture, grading, record; real containers, scripted policy,
 * no Temporal): honest episodes beside as many that play every attack on a worker, beside harmless ones, and beside busy ones, whose
 * containers use as much of the processors as those of the attackers did. `--episodes` is the number of episodes of each honest lane in
 * a phase. `--pause` is the number of seconds that a neighbour waits after each command.
 *
 * Exit 1 if the honest episodes lose more than a tenth of their throughput beside busy neighbours (beside harmless ones where the
 * containers' use cannot be read: an attacker's processors then count as lost, which its own container limits bound), the event loop is blocked for more than 200 ms, memory
 * grows by more than 200 MiB over the control, or an honest repair is not resolved; 2 if nothing was compared.
 */
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { createAttackWorld } from '../test/support/attacks/world.ts'
import { ATTACKS, type Phase, playHostile } from '../test/support/hostile/play-hostile.ts'
import { benchArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { findEngine } from './support/find-engine.ts'
import { versions } from './support/versions.ts'
import { wholeNumbers } from './support/whole-numbers.ts'

endWith2OnError()
const { values } = benchArguments({
  options: {
    honest: { type: 'string', default: '16' },
    hostile: { type: 'string', default: '16' },
    rounds: { type: 'string', default: '4' },
    episodes: { type: 'string', default: '3' },
    pause: { type: 'string', default: '2' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const { json, out, ...numbers } = values
const { honest, hostile, rounds, episodes, pause } = wholeNumbers(numbers)

const LIMITS = { lossPercent: 10, loopDelayMs: 200, rssGrowthMiB: 200 }

const { stop } = await findEngine(`bench-hostile-${process.pid}`)
const world = await createAttackWorld('hostile')
try {
  // The first episodes load code and start threads, so they are not measured.
  await Promise.all([world.attack(['true']), world.attack(["sed -i 's/a - b/a + b/' calc.py"])])
  const phases = await playHostile({
    world,
    honest,
    neighbours: hostile,
    episodes,
    rounds,
    pauseS: pause,
    say: console.error,
  })
  const [harmless, attacked, busy] = [of(phases, 'harmless'), of(phases, 'hostile'), of(phases, 'busy')]
  const control = busy.episodes > 0 ? busy : harmless
  const lossTo = (other: typeof control): number =>
    Math.round((1 - attacked.episodesPerMinute / other.episodesPerMinute) * 1000) / 10
  const lossPercent = lossTo(control)
  const rssGrowthMiB = attacked.rssMaxMiB - harmless.rssMaxMiB
  const all = [harmless, attacked, busy]
  const missed = all.reduce((sum, { episodes: asked, resolved }) => sum + asked - resolved, 0)
  const violations = [
    ...(lossPercent > LIMITS.lossPercent ? [`honest episodes lose ${lossPercent} %`] : []),
    ...(attacked.loopDelayMaxMs > LIMITS.loopDelayMs ? [`the event loop stood for ${attacked.loopDelayMaxMs} ms`] : []),
    ...(rssGrowthMiB > LIMITS.rssGrowthMiB ? [`memory grew by ${rssGrowthMiB} MiB`] : []),
    ...(missed > 0 ? [`${missed} honest repairs did not count`] : []),
  ]
  const facts = {
    bench: 'hostile',
    ...versions(),
    engine: world.engine.version,
    loadAverage: loadavg()[0],
    honest,
    hostile,
    rounds,
    episodes,
    pauseS: pause,
    attacks: Object.keys(ATTACKS),
    control: control === busy ? 'busy' : 'harmless',
    lossPercent,
    lossPercentToHarmless: lossTo(harmless),
    loopDelayMaxMs: attacked.loopDelayMaxMs,
    loopDelayMaxMsOfControl: control.loopDelayMaxMs,
    rssGrowthMiB,
    violations,
    phases,
  }
  const text = `${JSON.stringify(facts, null, 2)}\n`
  if (out !== undefined) writeFileSync(out, text)
  if (json) process.stdout.write(text)
  else
    console.log(
      `loss ${lossPercent} % beside ${facts.control} ones, event loop ${facts.loopDelayMaxMs} ms, memory +${rssGrowthMiB} MiB`,
    )
  for (const violation of violations) console.error(violation)
  const compared = { 'honest episodes': attacked.episodes, 'hostile episodes': attacked.neighbours }
  process.exitCode = conclude({ compared, violations: violations.length })
} finally {
  await world.dispose()
  await stop()
}

function of(phases: readonly Phase[], kind: Phase['kind']) {
  const own = phases.filter((phase) => phase.kind === kind)
  const sum = (read: (phase: Phase) => number): number => own.reduce((total, phase) => total + read(phase), 0)
  const greatest = (read: (phase: Phase) => number): number => Math.max(...own.map(read))
  const episodesOfAll = sum(({ honestEpisodes }) => honestEpisodes)
  return {
    episodes: episodesOfAll,
    resolved: sum(({ honestResolved }) => honestResolved),
    neighbours: sum(({ neighbourEpisodes }) => neighbourEpisodes),
    episodesPerMinute: (episodesOfAll / sum(({ seconds }) => seconds)) * 60,
    loopDelayMaxMs: greatest(({ loopDelayMaxMs }) => loopDelayMaxMs),
    rssMaxMiB: greatest(({ rssMaxMiB }) => rssMaxMiB),
  }
}
