import type { LogDecoding } from './log-slice.ts'
import { PARSERS_4, PARSERS_5, PARSERS_FORK, PARSERS_V2, type ParserTable } from './parsers/names.ts'
import { RESOLUTION_4, RESOLUTION_5, type ResolutionRules } from './resolution.ts'

/** Cuts the log at markers, then grades by lists of tests; the method of the SWE-bench harness and its fork. */
export interface MarkedGrading {
  kind: 'marked'
  /** Whether the whole log is parsed if the part between the markers has no results. */
  fallsBack: boolean
  /** Whether a log must show that tests ran, and agree with the exit code that it prints. */
  needsEvidence: boolean
  resolution: ResolutionRules
}

/** How one upstream harness turns the bytes of a log into a verdict. A verdict is meaningful only together with its profile. */
export interface LogProfile {
  decoding: LogDecoding
  parsers: ParserTable
  unported: ReadonlySet<string>
  /** `equal-lists`: the passed tests of the whole log must be exactly the listed ones. */
  grading: MarkedGrading | { kind: 'equal-lists' }
}

/**
 * Parsers that upstream has and Longhaul does not. Their rows are refused as unsupported, so that they can be counted; any other
 * unknown name is an error upstream too.
 */
const OF_SWEBENCH =
  'redis jq doctest micropython_test googletest gotest maven ant gradle_custom calypso chart_js marked p5js react_pdf jest jest_json vitest karma tap immutable_js phpunit minitest cucumber ruby_unit rspec_transformed_json jekyll cargo'

const OF_SWEBENCH_5 = 'bpmn_js carbon eslint grommet highlightjs lighthouse next openlayers prismjs quarto_cli'

const REPOSITORIES_OF_SWEBENCH_4 = `redis/redis jqlang/jq nlohmann/json micropython/micropython valkey-io/valkey fmtlib/fmt
  caddyserver/caddy hashicorp/terraform prometheus/prometheus gohugoio/hugo gin-gonic/gin google/gson apache/druid
  javaparser/javaparser projectlombok/lombok apache/lucene reactivex/rxjava Automattic/wp-calypso chartjs/Chart.js
  markedjs/marked processing/p5.js diegomura/react-pdf babel/babel vuejs/core facebook/docusaurus immutable-js/immutable-js
  mrdoob/three.js preactjs/preact axios/axios phpoffice/phpspreadsheet laravel/framework php-cs-fixer/php-cs-fixer
  briannesbitt/carbon jekyll/jekyll fluent/fluentd fastlane/fastlane jordansissel/fpm faker-ruby/faker rubocop/rubocop
  burntsushi/ripgrep sharkdp/bat astral-sh/ruff tokio-rs/tokio uutils/coreutils nushell/nushell tokio-rs/axum`

const UNPORTED_FORK: ReadonlySet<string> = new Set(words(REPOSITORIES_OF_SWEBENCH_4))
const UNPORTED_4: ReadonlySet<string> = new Set([...UNPORTED_FORK, ...functions(OF_SWEBENCH)])
const UNPORTED_5: ReadonlySet<string> = new Set([...functions(OF_SWEBENCH), ...functions(OF_SWEBENCH_5)])

function words(text: string): string[] {
  return text.split(/\s+/)
}

function functions(names: string): string[] {
  return words(names).map((name) => `parse_log_${name}`)
}

export const LOG_PROFILES = {
  /** SWE-rebench/SWE-bench-fork 39316f7 */
  'fork-4.0.3': {
    decoding: 'strict',
    parsers: PARSERS_FORK,
    unported: UNPORTED_FORK,
    grading: { kind: 'marked', fallsBack: false, needsEvidence: false, resolution: RESOLUTION_4 },
  },
  /** swebench 4.1.0 */
  'swebench-4.1': {
    decoding: 'strict',
    parsers: PARSERS_4,
    unported: UNPORTED_4,
    grading: { kind: 'marked', fallsBack: true, needsEvidence: false, resolution: RESOLUTION_4 },
  },
  /** swebench 5.0.2; it replaces invalid bytes when it writes the log that it later reads */
  'swebench-5': {
    decoding: 'replace',
    parsers: PARSERS_5,
    unported: UNPORTED_5,
    grading: { kind: 'marked', fallsBack: true, needsEvidence: true, resolution: RESOLUTION_5 },
  },
  /** SWE-rebench/SWE-rebench-V2 c71902a; its log is standard output followed by standard error */
  'rebench-v2': {
    decoding: 'strict',
    parsers: PARSERS_V2,
    unported: new Set(),
    grading: { kind: 'equal-lists' },
  },
} as const satisfies Record<string, LogProfile>

export type LogProfileName = keyof typeof LOG_PROFILES

export function isLogProfileName(name: string): name is LogProfileName {
  return Object.hasOwn(LOG_PROFILES, name)
}

/** Whether this version has the parser; upstream has more parsers than are ported. */
export function hasParser(profile: LogProfileName, parser: string): boolean {
  return LOG_PROFILES[profile].parsers.has(parser)
}
