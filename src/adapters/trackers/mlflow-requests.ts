import { oneLine } from '../../domain/hostile-text.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { MlflowRecipe } from '../../contracts/trackers.types.ts'
import { z } from 'zod'

/** Limit of one exchange with a tracking server, up to its last byte. */
const ANSWER_MS = 10_000
/** A page of a metric's history takes a hundredth of this. */
const MOST_BYTES = 16 * 1024 * 1024

export interface MlflowRequest<T> {
  method: 'GET' | 'POST'
  /** Path below `/api/2.0/mlflow/`. */
  path: string
  /** For a GET this becomes the query. */
  body: Record<string, unknown>
  answer: z.ZodType<T>
}

/** The server's own error. */
const REFUSAL = z.object({ error_code: z.string().nullish(), message: z.string().nullish() })

export class MlflowRefusal extends LonghaulError {
  /** For example `RESOURCE_DOES_NOT_EXIST`; empty if the server gave none. */
  readonly word: string

  constructor(word: string, message: string, isPassing: boolean) {
    super({ code: isPassing ? 'Tracker.Unavailable' : 'Tracker.Refused', message })
    this.word = word
  }
}

/**
 * Sends one request of MLflow's REST API. Redirects are not followed, because they would send the token along.
 * @throws LonghaulError `Tracker.Unavailable` if a retry may help, otherwise `Tracker.Refused`; `Config.Invalid` without the token
 */
export async function askMlflow<T>(
  { url, tokenVariable }: MlflowRecipe,
  { method, path, body, answer }: MlflowRequest<T>,
  { signal, env }: { signal: AbortSignal; env: NodeJS.ProcessEnv },
): Promise<T> {
  const address = new URL(`${url.replace(/\/+$/, '')}/api/2.0/mlflow/${path}`)
  if (method === 'GET') for (const [name, value] of Object.entries(body)) address.searchParams.set(name, String(value))
  const token = readToken(tokenVariable, env)
  const late = AbortSignal.timeout(ANSWER_MS)
  try {
    const response = await fetch(address, {
      method,
      redirect: 'error',
      signal: AbortSignal.any([signal, late]),
      headers: {
        'content-type': 'application/json',
        'user-agent': 'longhaul',
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      },
      ...(method === 'GET' ? {} : { body: JSON.stringify(body) }),
    })
    const text = await readText(response, url)
    if (!response.ok) throw refused(url, response.status, text)
    return understood(url, path, text, answer)
  } catch (error) {
    if (signal.aborted || error instanceof LonghaulError) throw error
    const reason = late.aborted ? `no answer within ${ANSWER_MS / 1000} s` : reasonOf(error)
    throw new LonghaulError({ code: 'Tracker.Unavailable', message: `MLflow at ${url} cannot be reached: ${reason}` })
  }
}

function readToken(name: string | null, env: NodeJS.ProcessEnv): string | null {
  if (name === null) return null
  const token = env[name]
  if (token !== undefined && token !== '' && !/[^\x21-\x7e]/.test(token)) return token
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected MLflow's token in ${name}, as trackers[].tokenVariable says, got ${token === undefined || token === '' ? 'no such variable' : 'a value that no header can carry'}: export it before longhaul up, or in the service of the trainer and artifact workers`,
  })
}

async function readText(response: Response, url: string): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    bytes += (chunk as Uint8Array).length
    if (bytes > MOST_BYTES) throw rubbish(url, `more than ${MOST_BYTES} bytes`)
    chunks.push(chunk as Uint8Array)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function understood<T>(url: string, path: string, text: string, answer: z.ZodType<T>): T {
  const parsed = answer.safeParse(parseJson(text))
  if (parsed.success) return parsed.data
  throw rubbish(url, `${path} answered ${JSON.stringify(text.slice(0, 80))}`)
}

function rubbish(url: string, what: string): LonghaulError {
  return new LonghaulError({
    code: 'Tracker.Refused',
    message: `Expected MLflow's REST API at ${url}, got something else (${what}): check that trackers[].url is the tracking server's own address`,
  })
}

function refused(url: string, status: number, text: string): MlflowRefusal {
  const said = REFUSAL.safeParse(parseJson(text))
  const word = said.data?.error_code ?? ''
  const why = [word, oneLine(said.data?.message ?? '')].filter((part) => part !== '').join(': ')
  const hint = status === 401 || status === 403 ? '; check that trackers[].tokenVariable names a valid token' : ''
  // The answer comes from a proxy or another program, because MLflow names what it does not find.
  if (word === '' && status >= 400 && status < 500 && hint === '' && status !== 408 && status !== 429) {
    return new MlflowRefusal(word, rubbish(url, `status ${status}`).message, false)
  }
  const isPassing = status >= 500 || status === 408 || status === 429
  return new MlflowRefusal(
    word,
    `MLflow at ${url} answered ${status}${why === '' ? '' : ` (${why})`}${hint}`,
    isPassing,
  )
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Returns the system's error code if there is one, because `fetch failed` says nothing. */
function reasonOf(error: unknown): string {
  for (let link: unknown = error; link instanceof Error; link = link.cause) {
    const { code } = link as { code?: unknown }
    if (typeof code === 'string' && code !== '') return code
    if (link.cause === undefined) return oneLine(link.message)
  }
  return 'the connection broke'
}
