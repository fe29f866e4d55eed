import {
  parseCpp,
  parseCppV2,
  parseCppV3,
  parseCppV4,
  parseGoogleTest,
  parseJq,
  parseMicropython,
  parseRedis,
} from './cpp.ts'
import { parseDart, parseDartV2, parseDartV3 } from './dart.ts'
import { parseDjango } from './django.ts'
import { parseHaskell, parseHaskellV2 } from './haskell.ts'
import {
  parseCalypso,
  parseChartJs,
  parseJest,
  parseJestJson,
  parseJs,
  parseJs2,
  parseJs3,
  parseJs4,
  parseKarma,
  parseMarked,
  parseNpx,
  parseP5js,
  parseReactPdf,
  parseTap,
  parseVitest,
} from './javascript.ts'
import { parseJunitText } from './junit-text.ts'
import {
  parseAnt,
  parseJavaMavenV2,
  parseKotlinJunit,
  parseLein,
  parseScala,
  parseScalaV2,
  parseScalaV3,
} from './jvm.ts'
import { parseCargo, parseGoTest, parseGradle } from './line-patterns.ts'
import { parseJavaMaven, parseMaven } from './maven.ts'
import { parseCsharp, parseElixir, parseJulia, parseLua, parseSwift } from './more-languages.ts'
import { parseOcaml, parseOcamlV2, parseOcamlV3, parseOcamlV4 } from './ocaml.ts'
import { parsePhpUnit, parsePhpV1 } from './php.ts'
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
import { parseR, parseRV2 } from './r.ts'
import { parseCucumber, parseMinitest, parseRspecJson, parseRubyUnit, parseRubyV1, parseRubyV2 } from './ruby.ts'
import type { LogParser } from './status-map.ts'
import { parseCombinedReports, parseDoctest, parseGradlewV1, parseRJunit, parseTestReport } from './xml-reports.ts'

/** Parsers by the name in the row, or by the name that upstream derives from it. */
export type ParserTable = ReadonlyMap<string, LogParser>

/** One parser for each output format of the Python repositories. */
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

/** Upstream's repositories, each with the last part of its parser's name. */
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

/** The fork looks up a row's name among the repositories, to which it added three names. */
export const PARSERS_FORK: ParserTable = new Map([...byRepository(FAMILY_4), ...threeOfPytest(FAMILY_4)])

/** Upstream selects by repository; the functions' names are added for callers that have no repository. */
export const PARSERS_4: ParserTable = new Map([...byRepository(FAMILY_4), ...byFunction(FAMILY_4)])

export const PARSERS_5: ParserTable = new Map(byFunction(FAMILY_5))

/** Names of SWE-rebench-V2 without `parse_log_`. */
const OF_V2: Readonly<Record<string, LogParser>> = {
  pydantic: FAMILY_V2.pytest,
  dvc: FAMILY_V2.pytest,
  pytest_nebo: parsePytestNebo,
  gotest: parseGoTest,
  cargo: parseCargo,
  redis: parseRedis,
  jq: parseJq,
  doctest: parseDoctest,
  micropython_test: parseMicropython,
  googletest: parseGoogleTest,
  cpp: parseCpp,
  cpp_v2: parseCppV2,
  cpp_v3: parseCppV3,
  cpp_v4: parseCppV4,
  minitest: parseMinitest,
  cucumber: parseCucumber,
  ruby_unit: parseRubyUnit,
  rspec_transformed_json: parseRspecJson,
  ruby_v1: parseRubyV1,
  ruby_v2: parseRubyV2,
  phpunit: parsePhpUnit,
  php_v1: parsePhpV1,
  calypso: parseCalypso,
  chart_js: parseChartJs,
  marked: parseMarked,
  p5js: parseP5js,
  react_pdf: parseReactPdf,
  jest: parseJest,
  jest_json: parseJestJson,
  vitest: parseVitest,
  karma: parseKarma,
  tap: parseTap,
  js: parseJs,
  js_2: parseJs2,
  js_3: parseJs3,
  js_4: parseJs4,
  npx: parseNpx,
  java_mvn: parseJavaMaven,
  java_mvn_v2: parseJavaMavenV2,
  maven: parseMaven,
  ant: parseAnt,
  gradle_custom: parseGradle,
  gradlew_v1: parseGradlewV1,
  junit: parseJunitText,
  kotlin_junit: parseKotlinJunit,
  sbt: parseJunitText,
  scala: parseScala,
  scala_v2: parseScalaV2,
  scala_v3: parseScalaV3,
  lein: parseLein,
  elixir: parseElixir,
  haskell: parseHaskell,
  haskell_v2: parseHaskellV2,
  ocaml: parseOcaml,
  ocaml_v2: parseOcamlV2,
  ocaml_v3: parseOcamlV3,
  ocaml_v4: parseOcamlV4,
  ocaml_v5: parseOcamlV4,
  dart: parseDart,
  dart_v2: parseDartV2,
  dart_v3: parseDartV3,
  lua_nvim: parseLua,
  julia: parseJulia,
  r: parseR,
  r_v2: parseRV2,
  r_junit: parseRJunit,
  swift: parseSwift,
  csharp: parseCsharp,
}

/** Names without the prefix `parse_log_`. */
const ODD_NAMES_OF_V2: readonly [string, LogParser][] = [
  ['parse_combined_test_reports', parseCombinedReports],
  ['parse_test_report', parseTestReport],
  ['parse_java_mvn', parseJavaMaven],
  ['parse_java_mvn_v2', parseJavaMavenV2],
  ['parse_lua_nvim', parseLua],
  ['parse_lue_nvim', parseLua],
  ['parse_logs_r_junit', parseRJunit],
  ['parse_logs_kotlin_junit', parseKotlinJunit],
]

export const PARSERS_V2: ParserTable = new Map([
  ...byFunction(FAMILY_V2),
  ...Object.entries(OF_V2).map(([name, parser]): [string, LogParser] => [`parse_log_${name}`, parser]),
  ...ODD_NAMES_OF_V2,
])
