import { parseDjango } from './django.ts'
import { parseCargo, parseGoTest, parseGradle, parseJest, parseVitest } from './line-patterns.ts'
import { parseJavaMaven, parseMaven } from './maven.ts'
import { parsePytestNebo, parseSeaborn, parseSeabornOf5, parseSympy, parseSympyOfV2 } from './python-runners.ts'
import {
  matplotlibParser,
  parsePytestV2Of5,
  parsePytestV2OfV2,
  pytestOptionsParser,
  pytestParser,
  pytestV2Parser,
  RULES_4,
  RULES_5,
  RULES_V2,
} from './pytest.ts'
import type { LogParser } from './status-map.ts'

/** Parsers by the name that a row gives, or that upstream derives from it. */
export type ParserTable = ReadonlyMap<string, LogParser>

/** One parser for each way in which the Python repositories print. */
interface PythonFamily {
  pytest: LogParser
  options: LogParser
  v2: LogParser
  django: LogParser
  matplotlib: LogParser
  seaborn: LogParser
  sympy: LogParser
}

const FAMILY_4: PythonFamily = {
  pytest: pytestParser(RULES_4),
  options: pytestOptionsParser(RULES_4),
  v2: pytestV2Parser(RULES_4),
  django: parseDjango,
  matplotlib: matplotlibParser(RULES_4),
  seaborn: parseSeaborn,
  sympy: parseSympy,
}

const FAMILY_5: PythonFamily = {
  ...FAMILY_4,
  pytest: pytestParser(RULES_5),
  options: pytestOptionsParser(RULES_5),
  v2: parsePytestV2Of5,
  matplotlib: matplotlibParser(RULES_5),
  seaborn: parseSeabornOf5,
}

const FAMILY_V2: PythonFamily = {
  ...FAMILY_4,
  pytest: pytestParser(RULES_V2),
  options: pytestOptionsParser(RULES_V2),
  v2: parsePytestV2OfV2,
  matplotlib: matplotlibParser(RULES_V2),
  sympy: parseSympyOfV2,
}

/** Upstream's repositories, and the last part of the parser's own name there. */
const REPOSITORIES: [repository: string, name: string, kind: keyof PythonFamily][] = [
  ['astropy/astropy', 'astropy', 'v2'],
  ['django/django', 'django', 'django'],
  ['marshmallow-code/marshmallow', 'marshmallow', 'pytest'],
  ['matplotlib/matplotlib', 'matplotlib', 'matplotlib'],
  ['mwaskom/seaborn', 'seaborn', 'seaborn'],
  ['pallets/flask', 'flask', 'pytest'],
  ['psf/requests', 'requests', 'options'],
  ['pvlib/pvlib-python', 'pvlib', 'pytest'],
  ['pydata/xarray', 'xarray', 'pytest'],
  ['pydicom/pydicom', 'pydicom', 'options'],
  ['pylint-dev/astroid', 'astroid', 'pytest'],
  ['pylint-dev/pylint', 'pylint', 'options'],
  ['pytest-dev/pytest', 'pytest', 'pytest'],
  ['pyvista/pyvista', 'pyvista', 'pytest'],
  ['scikit-learn/scikit-learn', 'scikit', 'v2'],
  ['sqlfluff/sqlfluff', 'sqlfluff', 'pytest'],
  ['sphinx-doc/sphinx', 'sphinx', 'v2'],
  ['sympy/sympy', 'sympy', 'sympy'],
]

function byRepository(family: PythonFamily): [string, LogParser][] {
  return REPOSITORIES.map(([repository, , kind]) => [repository, family[kind]])
}

function threeOfPytest(family: PythonFamily): [string, LogParser][] {
  return [
    ['parse_log_pytest', family.pytest],
    ['parse_log_pytest_options', family.options],
    ['parse_log_pytest_v2', family.v2],
  ]
}

function byFunction(family: PythonFamily): [string, LogParser][] {
  return [
    ...threeOfPytest(family),
    ...REPOSITORIES.map(([, name, kind]): [string, LogParser] => [`parse_log_${name}`, family[kind]]),
  ]
}

/** The fork looks a row's name up among the repositories, to which it added three names. */
export const PARSERS_FORK: ParserTable = new Map([...byRepository(FAMILY_4), ...threeOfPytest(FAMILY_4)])

/** Upstream goes by repository; the functions' own names are ours, for callers that have no repository. */
export const PARSERS_4: ParserTable = new Map([...byRepository(FAMILY_4), ...byFunction(FAMILY_4)])

export const PARSERS_5: ParserTable = new Map(byFunction(FAMILY_5))

export const PARSERS_V2: ParserTable = new Map([
  ...byFunction(FAMILY_V2),
  ['parse_log_pydantic', FAMILY_V2.pytest],
  ['parse_log_dvc', FAMILY_V2.pytest],
  ['parse_log_pytest_nebo', parsePytestNebo],
  ['parse_log_gotest', parseGoTest],
  ['parse_log_cargo', parseCargo],
  ['parse_log_jest', parseJest],
  ['parse_log_vitest', parseVitest],
  ['parse_java_mvn', parseJavaMaven],
  ['parse_log_java_mvn', parseJavaMaven],
  ['parse_log_maven', parseMaven],
  ['parse_log_gradle_custom', parseGradle],
])
