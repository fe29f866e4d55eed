/** Many small projects with their hidden tests in one repository, so that an audit starts once for all of them. */
import assert from 'node:assert/strict'
import { PRISTINE, SOLVED } from './repositories.ts'
import { type AuditAnswer, explain } from './run-audit.ts'

export interface SmallProject {
  title: string
  pristine?: Record<string, string>
  patch: Record<string, string>
  hidden: Record<string, string>
}

/** Puts each project into its own modules, beside the solution and with its hidden tests beside `others`. */
export function together(projects: readonly SmallProject[], others: Record<string, string>) {
  const many = projects.map(numbered)
  const join = (key: 'pristine' | 'patch' | 'hidden'): Record<string, string> =>
    Object.assign({}, ...many.map((project) => project[key]))
  return {
    many,
    pristine: { ...PRISTINE, ...join('pristine') },
    patch: { ...join('patch'), ...SOLVED },
    hidden: { ...join('hidden'), ...others },
  }
}

/** The listed tests of a row, including tests that other functions make. */
export function namesIn(hidden: Record<string, string>): string[] {
  const text = Object.values(hidden).join('\n')
  const defined = [...text.matchAll(/(?:def |^)(test_\w+)/gm)].map(([, name = '']) => name)
  const looped = [...text.matchAll(/['"](test_\w+_)%d/g)].flatMap(([, name = '']) => [`${name}1`, `${name}2`])
  const files = Object.keys(hidden).flatMap((file) => [
    `${file}::test`,
    `test (${file.replace(/\.py$/, '').replaceAll('/', '.')}.T)`,
  ])
  return [...defined, ...looped, ...files]
}

/** Renames the project's modules to its own. */
function numbered(project: SmallProject, index: number) {
  const rename = (files: Record<string, string>): Record<string, string> =>
    Object.fromEntries(
      Object.entries(files).map((pair) =>
        pair.map((text) => text.replaceAll(/\b(test_)?(calc|helpers|common)\b/g, `$1$2${index}`)),
      ),
    )
  const hidden = rename(project.hidden)
  return {
    title: project.title,
    module: Object.keys(hidden).find((file) => file.endsWith(`${index}.py`)) ?? '',
    pristine: rename(project.pristine ?? {}),
    patch: rename(project.patch),
    hidden,
  }
}

/** Whether all tests of this module passed honestly. */
export function isPaid(answer: AuditAnswer, module: string): boolean {
  const { tests, canaries } = answer
  const name = module.replaceAll('/', '.').replace(/\.py$/, '')
  const own = tests.filter(({ id }) => id.startsWith(`${module}::`) || id.includes(`(${name}.`))
  assert.ok(own.length > 0, `no test of ${module}: ${explain(answer)}`)
  return own.every(({ outcome }) => outcome === 'passed') && canaries.every((one) => one.ok || one.module !== module)
}
