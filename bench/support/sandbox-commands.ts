export type CommandKind =
  | 'trivial'
  | 'cat'
  | 'grep'
  | 'edit'
  | 'diff'
  | 'test'
  | 'flood'
  | 'bytes'
  | 'sleep'
  | 'timeout'
  | 'child'

export interface RecordedCommand {
  kind: CommandKind
  command: string
  timeoutMs: number
  expected: Expected
}

/** The expected effect of a command in every implementation: a refused or incomplete command is fast, but its time is no result. */
export interface Expected {
  /** `timeout`: the command is stopped at its deadline. */
  exit: number | 'timeout'
  /** stdout and stderr together, as Latin-1 bytes; a pattern if their order is not fixed. */
  output: string | RegExp
  /** Least time that the command itself takes. */
  atLeastMs?: number
}

/** A rival's report on a command that it ran. */
export interface Ran {
  ms: number
  exitCode: number | null
  isTimeout: boolean
  /** As Latin-1; only the beginning if the rival keeps no more. */
  output: string
  outputBytes: number
}

/** Commands of agents in a sandbox, in the proportions of recorded episodes. A trivial command does almost nothing, so its time is
 *  the overhead. Each command leaves the directory unchanged, because only some rivals keep it between commands. */
export const COMMANDS: readonly RecordedCommand[] = [
  ...of('trivial', [
    ['true', 0, ''],
    ['pwd', 0, '/testbed\n'],
    ['echo hello', 0, 'hello\n'],
    ['cd /tmp', 0, ''],
    ['cd /testbed', 0, ''],
    [':', 0, ''],
    ['false', 1, ''],
    ['echo "$HOME"', 0, '/root\n'],
    ['type cd', 0, 'cd is a shell builtin\n'],
    ['export STEP=1', 0, ''],
    ['test -f setup.py', 0, ''],
    ['test -d pkg && echo yes', 0, 'yes\n'],
    ['umask', 0, '0022\n'],
    ['printf "%s\\n" a b c', 0, 'a\nb\nc\n'],
    ['for i in 1 2 3; do echo $i; done', 0, '1\n2\n3\n'],
    ['x=1; echo $((x + 1))', 0, '2\n'],
    ['[ -e missing ] || echo no', 0, 'no\n'],
    ['echo error >&2', 0, 'error\n'],
    ['cd pkg && pwd && cd ..', 0, '/testbed/pkg\n'],
    ['exit 3', 3, ''],
  ]),
  ...of(
    'cat',
    [10, 20, 30, 40, 50, 60, 70, 80, 90, 100].map((kilobytes) => [`cat data/${kilobytes}.txt`, 0, textOf(kilobytes)]),
  ),
  ...of('grep', [
    ['grep -rn "def f" pkg | head -40', 0, /^(?:pkg\/m\d+\.py:\d+:def f\d+\(x\):\n){40}$/],
    ['grep -rn "return 7" pkg | head -40', 0, ''],
    ['grep -rn "import" pkg | head -40', 0, /^(?:pkg\/m\d+\.py:1:import os\n){40}$/],
    ['grep -rn "class" pkg | head -40', 0, ''],
    ['grep -rn "value = 4" pkg | head -40', 0, /^(?:pkg\/m4\d?\.py:5: {4}value = 4\d?\n){10,11}$/],
  ]),
  ...of(
    'edit',
    [0, 1, 2, 3, 4].map((index) => [
      `cat > pkg/m${index}.py << 'EOF'\ndef f${index}(x):\n    return x * ${index} + 1\nEOF`,
      0,
      '',
    ]),
  ),
  ...of('diff', [
    ['git diff', 0, /^(?=(?:[^]*?^diff --git a\/pkg){5})[^]*\+ {4}return x \* 4 \+ 1\n$/m],
    ['git diff --stat', 0, /5 files changed/],
    ['git status --short', 0, ' M pkg/m0.py\n M pkg/m1.py\n M pkg/m2.py\n M pkg/m3.py\n M pkg/m4.py\n'],
    ['git diff pkg/m1.py', 0, /^diff --git a\/pkg\/m1\.py [^]*\+ {4}return x \* 1 \+ 1\n$/],
    ['git log --oneline -3', 0, /^[0-9a-f]{7,} (?:\([^)]*\) )?start\n$/],
  ]),
  ...of(
    'test',
    [0, 1, 2, 3, 4].map((index) => [
      `python3 -B -m pytest -q -p no:cacheprovider tests/test_m${index}.py`,
      0,
      /\n1 passed in /,
    ]),
    60_000,
  ),
  ...of(
    'flood',
    [1, 2, 3].map((seed) => [
      `yes "line of output number ${seed}" | head -c 1000000`,
      0,
      `line of output number ${seed}\n`.repeat(50_000).slice(0, 1_000_000),
    ]),
  ),
  ...of('bytes', [
    ['echo err >&2; echo out', 0, /^(?:err\nout|out\nerr)\n$/],
    [String.raw`printf '\377\376 caf\351\n'`, 0, '\u00FF\u00FE caf\u00E9\n'],
  ]),
  ...of('sleep', [
    ['sleep 1', 0, '', 1000],
    ['sleep 1', 0, '', 1000],
  ]),
  ...of(
    'timeout',
    [
      ['sleep 30', 'timeout', '', 1000],
      ["trap '' TERM; sleep 30", 'timeout', '', 1000],
    ],
    1000,
  ),
  ...of('child', [['sleep 3 & echo started', 0, /started\n$/]]),
]

type Row = readonly [command: string, exit: Expected['exit'], output: Expected['output'], atLeastMs?: number]

function of(kind: CommandKind, rows: readonly Row[], timeoutMs = 20_000): RecordedCommand[] {
  return rows.map(([command, exit, output, atLeastMs = 0]) => ({
    kind,
    command,
    timeoutMs,
    expected: { exit, output, atLeastMs },
  }))
}

/**
 * What is wrong with a run of a command, or null. The clocks of two processes may differ slightly.
 * @param isText whether the rival returns text: it changes line ends and loses bytes that are not UTF-8
 */
export function faultOf({ command, expected }: RecordedCommand, ran: Ran, { isText = false } = {}): string | null {
  const { exit, output, atLeastMs = 0 } = expected
  const brief = (text: string): string => JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}…` : text)
  if (ran.ms < atLeastMs * 0.99) return `${brief(command)} took ${Math.round(ran.ms)} ms, it takes ${atLeastMs}`
  if (exit === 'timeout') return ran.isTimeout ? null : `${brief(command)} was not ended at its deadline`
  if (ran.isTimeout) return `${brief(command)} was ended at its deadline`
  if (ran.exitCode !== exit) {
    return `${brief(command)} ended with ${ran.exitCode}, expected ${exit}: ${brief(ran.output)}`
  }
  const isSame = isText ? isSameText(output, ran.output) : isSameBytes(output, ran)
  return isSame ? null : `${brief(command)} said ${brief(ran.output)} (${ran.outputBytes} bytes)`
}

function isSameBytes(expected: string | RegExp, { output, outputBytes }: Ran): boolean {
  if (typeof expected !== 'string') return expected.test(output)
  return outputBytes === expected.length && expected.startsWith(output) && (output !== '' || expected === '')
}

/** Messages of programs after `head` has exited, if the server ignores SIGPIPE; they may be anywhere in the output. */
const BROKEN_PIPE = /(?:grep: write error|yes: standard output): Broken pipe\n?/

function isSameText(expected: string | RegExp, output: string): boolean {
  const text = `${output.replaceAll('\r\n', '\n').replace(BROKEN_PIPE, '').replace(/\n$/, '')}\n`
  if (typeof expected !== 'string') return expected.test(text)
  if (/[\u0080-\u00FF]/.test(expected)) return text.length > 1
  return text === `${expected.replace(/\n$/, '')}\n`
}

function textOf(kilobytes: number): string {
  return 'some text of forty characters and a bit\n'.repeat((kilobytes * 1000) / 40)
}

/** The repository in which the commands run. */
export function repositoryFiles(): Record<string, string> {
  const files: Record<string, string> = { 'setup.py': 'from setuptools import setup\nsetup()\n', 'pkg/__init__.py': '' }
  for (let index = 0; index < 200; index += 1) {
    files[`pkg/m${index}.py`] = `import os\n\n\ndef f${index}(x):\n    value = ${index}\n    return x * value\n`
  }
  for (let index = 0; index < 5; index += 1) {
    files[`tests/test_m${index}.py`] =
      `from pkg.m${index} import f${index}\n\n\ndef test_f():\n    assert f${index}(0) in (0, 1)\n`
  }
  for (let kilobytes = 10; kilobytes <= 100; kilobytes += 10) {
    files[`data/${kilobytes}.txt`] = textOf(kilobytes)
  }
  return files
}
