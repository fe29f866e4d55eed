import type { CurationDecision, TaskDifficulty } from '../domain/statistics/task-difficulty.ts'
import { showInterval } from './means.ts'
import { number, type Table, text } from './tables.ts'

type CuratedTask = TaskDifficulty & { decision: CurationDecision }

/** Hardest first. */
export function curationTable(tasks: readonly CuratedTask[]): Table {
  return {
    title: 'Difficulty of tasks, from stored attempts',
    columns: [
      text('task'),
      number('resolved'),
      number('rate'),
      number('95 % interval'),
      number('lost'),
      number('runs'),
      number('policies'),
      text('second stage'),
    ],
    rows: tasks
      .toSorted((a, b) => a.rate - b.rate || (a.taskId < b.taskId ? -1 : 1))
      .map(({ taskId, resolved, attempts, rate, interval, lost, runs, policies, decision }) => [
        taskId,
        `${resolved} of ${attempts}`,
        attempts === 0 ? '–' : rate.toFixed(3),
        showInterval(interval),
        String(lost),
        String(runs.length),
        String(policies.length),
        decision,
      ]),
    notes: [
      'Wilson’s interval of the solve rate, as if every attempt were of one policy; lost: attempts without an outcome, which count nowhere.',
    ],
  }
}

export function sayCuration(tasks: readonly CuratedTask[]): string {
  const count = (decision: CurationDecision): number => tasks.filter((task) => task.decision === decision).length
  const attempts = tasks.reduce((sum, task) => sum + task.attempts, 0)
  const rows = tasks.length - new Set(tasks.map(({ taskId }) => taskId)).size
  return [
    `${count('kept')} of ${tasks.length} tasks kept: ${count('solved-often')} solved too often, ${count('never-solved')} never (${attempts} graded attempts)`,
    ...(rows === 0 ? [] : [`${rows} ids stand for more than one row of the data set: each row is listed by itself`]),
  ].join('\n')
}
