/**
 * `audit.py` under the other Pythons of this host: a row brings its own, from 3.6 on, and each has its own syntax trees, library and
 * pytest. All small projects whose tests are honest and all that try to be paid without a repair lie in one repository.
 */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { choosePython, listHostPythons } from '../../src/adapters/task-images/host-pythons.ts'
import { runCommand } from '../../src/platform/run-command.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { ANSWERED } from '../support/audit/answer-attacks.ts'
import { FORMS } from '../support/audit/form-attacks.ts'
import { DJANGO_ATTACKS, DJANGO_HIDDEN, DJANGO_PRISTINE, DJANGO_SOLVED } from '../support/audit/django-cases.ts'
import { HIDDEN_QUESTIONS } from '../support/audit/hidden-questions.ts'
import { EXPECTATIONS } from '../support/audit/expectation-attacks.ts'
import { HONEST_ERRORS } from '../support/audit/honest-errors.ts'
import { HONEST_EXPECTATIONS } from '../support/audit/honest-expectations.ts'
import { FITTING_EXPECTATIONS } from '../support/audit/fitting-attacks.ts'
import { HONEST_WRAPPED } from '../support/audit/honest-wrapped.ts'
import { WRAPPED_EXPECTATIONS } from '../support/audit/wrapped-attacks.ts'
import { HONEST_QUESTIONS } from '../support/audit/honest-questions.ts'
import { HONEST } from '../support/audit/honest.ts'
import { isPaid, namesIn, together } from '../support/audit/many-modules.ts'
import { HIDDEN_PYTEST, HIDDEN_UNITTEST, SOLVED } from '../support/audit/repositories.ts'
import { explain, isHonestPass, runAudit } from '../support/audit/run-audit.ts'
import { TOGETHER } from '../support/audit/shaped-attacks.ts'
import { HANG_MS } from '../support/hang.ts'

/**
 * The newest that each takes; the trainer's own Python, which `audit-driver.test.ts` uses, has the one of the trainer. One has a plugin
 * that changes every mock, and the adapter of coroutines that Django's cases use.
 */
const PACKAGES: Record<string, readonly string[]> = {
  '3.6': ['pytest==7.0.1'],
  '3.7': ['pytest==7.4.4'],
  '3.8': ['pytest==8.3.5'],
  '3.9': ['pytest==8.4.2'],
  '3.13': ['pytest==9.2.0', 'pytest-mock==3.15.1', 'asgiref==3.13.0'],
}
const HIDDEN = { pytest: HIDDEN_PYTEST, unittest: HIDDEN_UNITTEST }

const pythons = await listHostPythons()
const versions = Object.keys(PACKAGES).flatMap((minor) => choosePython(pythons, minor) ?? [])
const skip =
  process.getuid?.() !== 0
    ? 'needs root: the audit gives it up'
    : versions.length === 0 && `this host has no Python of ${Object.keys(PACKAGES).join(', ')}`

describe('an audit under other Pythons', { skip, concurrency: 1 }, () => {
  for (const { version, prefix } of versions) {
    for (const runner of ['unittest', 'pytest'] as const) {
      test(`Python ${minorOf(version)} agrees under ${runner} with honest tests alone`, async (context) => {
        const own = join(prefix, 'bin/python3')
        const python = runner === 'pytest' ? await withPytest(own, version) : own
        if (python === null) {
          context.skip('pytest cannot be fetched here')
          return
        }
        const honest = [...HONEST, ...HONEST_QUESTIONS, ...HONEST_EXPECTATIONS, ...HONEST_WRAPPED, ...HONEST_ERRORS]
          .filter((one) => one.runner === runner && runsUnder(version, one))
          .map((one) => ({ ...one, patch: one.patch ?? SOLVED }))
        // Texts are turned alike under both runners, and pytest takes ten times as long: only the oldest and the newest play attacks.
        const attacks = (
          runner === 'unittest'
            ? [...TOGETHER, ...FORMS, ...HIDDEN_QUESTIONS, ...ANSWERED, ...EXPECTATIONS, ...worded(version)]
            : isOldestOrNewest(version)
              ? [...HIDDEN_QUESTIONS, ...ANSWERED, ...EXPECTATIONS]
              : HIDDEN_QUESTIONS
        ).filter((one) => (one.runners ?? [runner]).includes(runner) && runsUnder(version, one))
        assert.ok(honest.length >= 3 && attacks.length >= 10)
        const { many, pristine, patch, hidden } = together([...honest, ...attacks], HIDDEN[runner])
        const spec = { focus: namesIn(hidden), timeout_s: HANG_MS / 1000 }
        const answer = await runAudit({ python, runner, pristine, patch, hidden, spec })
        assert.deepEqual([answer.ended, answer.changed], ['complete', []], explain(answer))
        const titles = many.filter(({ module }) => isPaid(answer, module)).map(({ title }) => title)
        assert.deepEqual(
          titles,
          honest.map(({ title }) => title),
          explain(answer),
        )
        assert.ok(isPaid(answer, 'tests/test_calc.py'), explain(answer))
      })
    }
  }

  test('Django agrees with honest tests alone', async (context) => {
    const newest = choosePython(pythons, '3.13')
    if (newest === null) {
      context.skip('this host has no Python of 3.13')
      return
    }
    const python = await withPytest(join(newest.prefix, 'bin/python3'), newest.version)
    if (python === null) {
      context.skip('pytest cannot be fetched here')
      return
    }
    // Those of the models and migrations beside the tests are no names of tests.
    const focus = namesIn({ 'tests/sums/tests.py': DJANGO_HIDDEN['tests/sums/tests.py'] ?? '' })
    for (const { title, patch } of [{ title: 'honest', patch: DJANGO_SOLVED }, ...DJANGO_ATTACKS]) {
      const answer = await runAudit({
        python,
        runner: 'django',
        pristine: DJANGO_PRISTINE,
        patch,
        hidden: DJANGO_HIDDEN,
        spec: { labels: ['sums.tests'], focus },
      })
      assert.equal(isHonestPass(answer), title === 'honest', `${title}: ${explain(answer)}`)
    }
  })
})

function isOldestOrNewest(version: string): boolean {
  return ['3.6', '3.13'].includes(minorOf(version))
}

/** Before 3.8 literals that a call wraps are altered where they are compared only; between the others no syntax tree changed for them. */
function worded(version: string) {
  return ['3.8', '3.13'].includes(minorOf(version)) ? [...WRAPPED_EXPECTATIONS, ...FITTING_EXPECTATIONS] : []
}

/** What a project needs beside pytest, and from which Python on it is there: these environments have neither numpy nor networkx. */
const NEEDS: [text: RegExp, minor: number][] = [
  [/numpy|networkx/, Number.POSITIVE_INFINITY],
  [/dataclasses|import annotations|asyncio\.run/, 7],
  [/IsolatedAsyncioTestCase/, 8],
  [/^ +match /m, 10],
  // Older ones wait for a queue that nothing is put into then.
  [/_asyncio\.Future/, 11],
]

function runsUnder(
  version: string,
  { patch = {}, hidden }: { patch?: Record<string, string>; hidden: Record<string, string> },
) {
  const text = [...Object.values(patch), ...Object.values(hidden)].join('\n')
  const minor = Number(version.split('.')[1])
  return NEEDS.every(([needed, since]) => minor >= since || !needed.test(text))
}

/** A virtual environment of this Python with a pytest that it takes, kept; null where no registry has it. */
async function withPytest(python: string, version: string): Promise<string | null> {
  const wanted = PACKAGES[minorOf(version)] ?? []
  const folder = join(stackPaths().cacheDir, 'audit-pythons')
  const made = join(folder, `${version}-${wanted.join('-').replaceAll('==', '-')}`)
  if (!existsSync(made)) {
    const making = `${made}-${process.pid}`
    await mkdir(folder, { recursive: true })
    const run = (command: string, ...args: string[]) => runCommand({ command, args, timeoutMs: HANG_MS })
    const venv = await run(python, '-m', 'venv', making)
    assert.equal(venv.exitCode, 0, venv.tail)
    const installed = await run(join(making, 'bin/python'), '-m', 'pip', 'install', '-q', ...wanted)
    if (installed.exitCode !== 0) {
      await rm(making, { recursive: true, force: true })
      return null
    }
    await rename(making, made).catch(() => rm(making, { recursive: true, force: true }))
  }
  return join(made, 'bin/python')
}

function minorOf(version: string): string {
  return version.split('.').slice(0, 2).join('.')
}
