import type { GradingProfile, Task } from '../../contracts/tasks.types.ts'
import { LOG_PROFILES } from '../../grading/log-profiles.ts'
import { commandsOf } from '../../grading/profiles/swebench-4.1.ts'
import type { RowColumns } from './row-columns.ts'

/** Reads how the row's harness installs, runs the tests and parses the log. The classic harnesses look commands up by repository and
 *  version. */
export function rowInstallConfig(columns: RowColumns, profile: GradingProfile): Task['installConfig'] {
  if (profile === 'swebench-4.1') {
    const logParser = knownParser(columns, profile, 'repo', columns.text('repo'))
    requireCommands(columns, logParser)
    return { install: null, testCmd: '', logParser }
  }
  if (profile === 'swebench-5') {
    return {
      install: null,
      testCmd: '',
      logParser: knownParser(columns, profile, 'log_parser', columns.text('log_parser')),
    }
  }
  const config = columns.object('install_config')
  // Upstream aborts its whole run on such a row.
  if (config === null) throw columns.refuse('install_config', 'an object', config)
  requireWord(columns, 'install_config.python', config['python'])
  const chain = profile === 'rebench-v2' ? '\n' : ' && '
  const testCmd = commandLine(columns, 'install_config.test_cmd', config['test_cmd'], chain)
  if (testCmd === null || testCmd.trim() === '')
    throw columns.refuse('install_config.test_cmd', 'a command', config['test_cmd'])
  return {
    install: commandLine(columns, 'install_config.install', config['install'], chain),
    testCmd,
    logParser: knownParser(columns, profile, 'install_config.log_parser', config['log_parser']),
  }
}

/** Accepts every parser name that upstream knows. A task whose parser this version has not ported is kept but cannot be run yet. */
function knownParser(columns: RowColumns, profile: GradingProfile, column: string, name: unknown): string {
  const { parsers, unported } = LOG_PROFILES[profile]
  if (typeof name === 'string' && (parsers.has(name) || unported.has(name))) return name
  throw columns.refuse(column, `a log parser of ${profile}`, name)
}

/** Upstream looks up commands by repository and version, and fails if there are none. */
function requireCommands(columns: RowColumns, repo: string): void {
  if (!LOG_PROFILES['swebench-4.1'].parsers.has(repo)) return
  const version = columns.optionalWord('version')
  if (commandsOf(repo, version) !== null) return
  throw columns.refuse('version', `a version of ${repo} that swebench 4.1.0 can test`, version)
}

/** Accepts text, a list of commands (joined as one chain), or nothing. */
function commandLine(columns: RowColumns, column: string, value: unknown, chain: string): string | null {
  if (value === undefined || value === null) return null
  const parts = Array.isArray(value) ? value : [value]
  // A script with a NUL character is no text to a shell.
  const isCommands = parts.every((part) => typeof part === 'string' && part.isWellFormed() && !part.includes('\0'))
  if (!isCommands) throw columns.refuse(column, 'a command', value)
  return parts.length === 0 ? null : parts.join(chain)
}

function requireWord(columns: RowColumns, column: string, value: unknown): void {
  if (value === undefined || value === null || typeof value === 'number') return
  // The text goes into paths and messages.
  if (typeof value === 'string' && /^[^\p{Cc}\p{Cf}\p{Cs}]{0,40}$/u.test(value.trim())) return
  throw columns.refuse(column, 'a version', value)
}
