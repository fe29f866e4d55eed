import { createHash } from 'node:crypto'
import type { SyntheticSource } from '../../../contracts/tasks.types.ts'
import type { ComposedTask } from './compose.ts'
import { expectedLiteral, functionName, testArguments } from './functions.ts'
import type { FunctionSpec } from './functions.ts'

export interface HiddenTests {
  path: string
  lines: string[]
  failToPass: string[]
  passToPass: string[]
}

/**
 * One file with a test for each function: one import of the package and one collection, so that grading stays cheap. Names follow from
 * the task's seed by a hash and from nothing in the repository: no rule that a policy learns from the repository predicts them, so no
 * file of the agent's can take their place.
 */
export function hiddenTests({ modules, target }: ComposedTask, source: SyntheticSource): HiddenTests {
  const path = `tests/test_${nameOf(source, 'file')}.py`
  const nodeId = (spec: FunctionSpec): string => `${path}::${testName(source, spec)}`
  const imports = modules
    .toSorted((left, right) => (left.name < right.name ? -1 : 1))
    .map(({ name, functions }) => `from ${name} import ${functions.map(functionName).toSorted().join(', ')}`)
  const functions = modules.flatMap((module) => module.functions)
  return {
    path,
    lines: [...imports, ...functions.flatMap((spec) => ['', '', ...testLines(source, spec)])],
    failToPass: [nodeId(target)],
    passToPass: functions.filter((spec) => spec !== target).map(nodeId),
  }
}

function testName(source: SyntheticSource, spec: FunctionSpec): string {
  return `test_${nameOf(source, functionName(spec))}`
}

function nameOf({ family, seed, split, index }: SyntheticSource, what: string): string {
  const material = ['hidden tests', family, seed, split, index, what].join('\n')
  return createHash('sha256').update(material).digest('hex').slice(0, 16)
}

function testLines(source: SyntheticSource, spec: FunctionSpec): string[] {
  const name = functionName(spec)
  const checks = testArguments(spec.kind).map(
    (values) => `    assert ${name}(${values.join(', ')}) == ${expectedLiteral(spec, values)}`,
  )
  return [`def ${testName(source, spec)}():`, ...checks]
}
