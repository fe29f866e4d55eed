import type { ComposedTask } from './compose.ts'
import { expectedLiteral, functionName, testArguments } from './functions.ts'
import type { FunctionSpec } from './functions.ts'

export interface HiddenTests {
  path: string
  lines: string[]
  failToPass: string[]
  passToPass: string[]
}

/** One file with a test for each function: one import of the package and one collection, so that grading stays cheap. */
export function hiddenTests({ packageName, modules, target }: ComposedTask): HiddenTests {
  const path = `tests/test_${packageName}.py`
  const nodeId = (spec: FunctionSpec): string => `${path}::test_${functionName(spec)}`
  const imports = modules
    .toSorted((left, right) => (left.name < right.name ? -1 : 1))
    .map(({ name, functions }) => `from ${name} import ${functions.map(functionName).toSorted().join(', ')}`)
  const functions = modules.flatMap((module) => module.functions)
  return {
    path,
    lines: [...imports, ...functions.flatMap((spec) => ['', '', ...testLines(spec)])],
    failToPass: [nodeId(target)],
    passToPass: functions.filter((spec) => spec !== target).map(nodeId),
  }
}

function testLines(spec: FunctionSpec): string[] {
  const name = functionName(spec)
  const checks = testArguments(spec.kind).map(
    (values) => `    assert ${name}(${values.join(', ')}) == ${expectedLiteral(spec, values)}`,
  )
  return [`def test_${name}():`, ...checks]
}
