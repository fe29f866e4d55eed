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
}

/** What agents do in a sandbox, in the shares of recorded episodes. A trivial command does next to nothing itself, so that its
 *  time is the overhead. */
export const COMMANDS: readonly RecordedCommand[] = [
  ...of('trivial', [
    'true',
    'pwd',
    'echo hello',
    'cd /tmp',
    'cd /testbed',
    ':',
    'false',
    'echo "$HOME"',
    'type cd',
    'export STEP=1',
    'test -f setup.py',
    'test -d pkg && echo yes',
    'umask',
    'printf "%s\\n" a b c',
    'for i in 1 2 3; do echo $i; done',
    'x=1; echo $((x + 1))',
    '[ -e missing ] || echo no',
    'echo error >&2',
    'cd pkg && pwd && cd ..',
    'exit 3',
  ]),
  ...of(
    'cat',
    [10, 20, 30, 40, 50, 60, 70, 80, 90, 100].map((kilobytes) => `cat data/${kilobytes}.txt`),
  ),
  ...of(
    'grep',
    ['def f', 'return 7', 'import', 'class', 'value = 4'].map((words) => `grep -rn "${words}" pkg | head -40`),
  ),
  ...of(
    'edit',
    [0, 1, 2, 3, 4].map(
      (index) => `cat > pkg/m${index}.py << 'EOF'\ndef f${index}(x):\n    return x * ${index} + 1\nEOF`,
    ),
  ),
  ...of('diff', ['git diff', 'git diff --stat', 'git status --short', 'git diff pkg/m1.py', 'git log --oneline -3']),
  ...of(
    'test',
    [0, 1, 2, 3, 4].map((index) => `python3 -m pytest -q -p no:cacheprovider tests/test_m${index}.py`),
    60_000,
  ),
  ...of(
    'flood',
    [1, 2, 3].map((seed) => `yes "line of output number ${seed}" | head -c 1000000`),
  ),
  ...of('bytes', ['echo err >&2; echo out', String.raw`printf '\377\376 caf\351\n'`]),
  ...of('sleep', ['sleep 1', 'sleep 1']),
  ...of('timeout', ['sleep 30', "trap '' TERM; sleep 30"], 1000),
  ...of('child', ['sleep 3 & echo started']),
]

function of(kind: CommandKind, commands: readonly string[], timeoutMs = 20_000): RecordedCommand[] {
  return commands.map((command) => ({ kind, command, timeoutMs }))
}

/** The repository that the commands are about. */
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
    files[`data/${kilobytes}.txt`] = 'some text of forty characters and a bit\n'.repeat((kilobytes * 1000) / 40)
  }
  return files
}
