import type { RolloutReport } from '../contracts/workflows.types.ts'

/** Formats a rollout as short Markdown without HTML and images, as the Temporal UI shows it. */
export function describeRollout(
  report: RolloutReport,
  { now, groupSize }: { now: number; groupSize?: number },
): string {
  const { groups, tasks, episodes, resolved, endings, score, eta, slowest, errors } = report
  const counted = Object.entries(endings).filter(([, count]) => count > 0)
  const parts = [
    [
      '| tasks done | episodes | resolved | pass@1 so far (95 %) | ready at |',
      '|---|---|---|---|---|',
      `| ${groups} / ${tasks}${groupSize === undefined ? '' : ` × ${groupSize}`} | ${episodes} | ${resolved} | ${describeScore(score)} | ${eta === null ? '–' : shortTime(eta)} |`,
    ].join('\n'),
    counted.length === 0
      ? ''
      : [
          `| ${counted.map(([ending]) => cell(ending)).join(' | ')} |`,
          `|${'---|'.repeat(counted.length)}`,
          `| ${counted.map(([, count]) => count).join(' | ')} |`,
        ].join('\n'),
    slowest.length === 0
      ? ''
      : [
          '| open longest | for |',
          '|---|---|',
          ...slowest.map(({ task, since }) => `| ${cell(task)} | ${duration(now - Date.parse(since))} |`),
        ].join('\n'),
    errors.length === 0
      ? ''
      : [
          '| last errors | code | at |',
          '|---|---|---|',
          ...errors.map(({ task, failure, at }) => `| ${cell(task)} | ${cell(failure)} | ${shortTime(at)} |`),
        ].join('\n'),
  ]
  return parts.filter((part) => part !== '').join('\n\n')
}

function describeScore(score: RolloutReport['score']): string {
  if (score === null) return '–'
  const { mean, low, high, tasks } = score
  return `**${mean.toFixed(3)}** (${low.toFixed(3)} to ${high.toFixed(3)}, n = ${tasks})`
}

/** Task ids come from data sets, so none of their characters may end a cell or begin a link. */
function cell(text: string): string {
  return text.replace(/[^\w.@:/ -]/g, '?').slice(0, 80)
}

function shortTime(iso: string): string {
  return `${iso.slice(0, 16).replace('T', ' ')} UTC`
}

function duration(ms: number): string {
  const minutes = Math.max(0, Math.floor(ms / 60_000))
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
