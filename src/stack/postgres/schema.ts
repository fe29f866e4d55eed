import { LonghaulError } from '../../contracts/errors.ts'
import { type CommandResult, runCommand } from '../../platform/run-command.ts'
import type { StepContext } from '../steps.ts'
import type { DatabaseAddress } from './database-address.ts'

/** The Temporal server's plugin for PostgreSQL 12 and newer, based on pgx. */
export const SQL_PLUGIN = 'postgres12_pgx'
/** Migrations run statement by statement; a new index on a large database takes long. */
const STEP_TIMEOUT_MS = 10 * 60_000

interface PrepareSchemaInput {
  sqlTool: string
  address: DatabaseAddress
  context: StepContext
}

/**
 * Brings both databases to the schema of the server that the tool was built with: creates missing ones, migrates older ones, leaves current
 * ones alone.
 * @throws LonghaulError `Config.Invalid` if the address or the user is refused, `Stack.SetupFailed` otherwise
 */
export async function prepareSchema({ sqlTool, address, context }: PrepareSchemaInput): Promise<void> {
  const stores = [
    { database: address.database, schema: 'postgresql/v12/temporal' },
    { database: address.visibility, schema: 'postgresql/v12/visibility' },
  ]
  for (const { database, schema } of stores) {
    const run = (...args: string[]): Promise<CommandResult> =>
      runCommand({
        command: sqlTool,
        args: ['--db', database, ...args],
        env: { ...process.env, ...toolEnvironment(address) },
        timeoutMs: STEP_TIMEOUT_MS,
        signal: context.signal,
      })
    const mustRun = async (...args: string[]): Promise<void> => {
      const result = await run(...args)
      if (result.exitCode !== 0) throw explain(address, database, result)
    }
    // Tried first: an account that may not create databases may still use existing ones.
    const tried = await run('setup-schema', '-v', '0.0')
    if (tried.exitCode !== 0) {
      if (!isMissing(tried)) throw explain(address, database, tried)
      await mustRun('create-database', '--defaultdb', 'postgres')
      await mustRun('setup-schema', '-v', '0.0')
    }
    await mustRun('update-schema', '--schema-name', schema)
  }
}

/** Passed in the environment, since other users can read a process's arguments. */
function toolEnvironment(address: DatabaseAddress): Record<string, string> {
  return {
    SQL_PLUGIN,
    SQL_HOST: address.host,
    SQL_PORT: String(address.port),
    SQL_USER: address.user,
    SQL_PASSWORD: address.password,
    SQL_CONNECT_ATTRIBUTES: new URLSearchParams(address.attributes).toString(),
  }
}

/** SQLSTATE 3D000. */
function isMissing({ tail }: CommandResult): boolean {
  return /database \\?"[^"]*" does not exist/.test(tail)
}

/** Patterns in the tool's output, with advice for the operator. The message also quotes PostgreSQL. */
const CAUSES: readonly { pattern: RegExp; says: (address: DatabaseAddress, database: string) => string }[] = [
  {
    pattern: /password authentication failed|28P01|28000|no pg_hba\.conf entry|role \\?"[^"]*\\?" does not exist/,
    says: ({ user }) =>
      `it refuses the user ${user}: name the right user in --temporal postgres://USER@HOST/…, and its password in PGPASSWORD or PGPASSFILE`,
  },
  {
    pattern: /permission denied to create database|42501/,
    says: ({ user, visibility }, database) =>
      `${user} may not create the database ${database}: CREATE DATABASE ${database} OWNER ${user}; and the same for ${visibility}`,
  },
  {
    pattern: /connection refused|no such host|timeout|i\/o timeout|deadline exceeded|no route to host/i,
    says: () => 'it does not answer: check that it runs, and that the address of --temporal postgres:// is right',
  },
  {
    pattern: /certificate|tls|SSL/,
    says: () => 'the connection cannot be secured as sslmode requires: check sslmode, sslrootcert, sslcert and sslkey',
  },
]

function explain(address: DatabaseAddress, database: string, { tail, timedOut }: CommandResult): LonghaulError {
  const cause = CAUSES.find(({ pattern }) => pattern.test(tail))
  // The tool logs lines with `{"error": "…", "logging-call-at": …}`; the last one may state only a general failure.
  const errors = [...tail.matchAll(/"error": "((?:[^"\\]|\\.)*)"/g)].map(([, text = '']) => text.replaceAll('\\"', '"'))
  const telling = errors.findLast((text) => cause?.pattern.test(text) === true)
  const own = withoutPassword(telling ?? errors.at(-1) ?? tail.split('\n').at(-1) ?? '', address.password)
  const why = timedOut
    ? `the schema was not ready within ${STEP_TIMEOUT_MS / 60_000} minutes`
    : cause?.says(address, database)
  return new LonghaulError({
    code: cause === undefined ? 'Stack.SetupFailed' : 'Config.Invalid',
    message: `Temporal cannot use ${address.title}: ${why ?? 'its schema cannot be migrated'}\n    ${own}`,
  })
}

/** The driver may quote the address that it tried, with the password. */
function withoutPassword(text: string, password: string): string {
  return password === '' ? text : text.replaceAll(password, '…').replaceAll(encodeURIComponent(password), '…')
}
