/** A server for uploads of `wandb sync`. It answers the minimum that the package needs; the test judges what it received. */
import { execFile } from 'node:child_process'
import { createServer, type IncomingMessage } from 'node:http'
import { promisify } from 'node:util'
import { HANG_MS } from '../hang.ts'
import { closeServer, listenOnLoopback } from '../loopback.ts'

export interface Upload {
  /** `team/agents/<run>` */
  run: string
  /** Position of the rows in the run's history. */
  offset: number
  rows: Record<string, number>[]
}

export interface WandbServer {
  url: string
  /** Rows of histories, in order of arrival. */
  uploads: Upload[]
  close(): Promise<void>
}

interface Stream {
  files?: Record<string, { offset: number; content: string[] }>
}

export async function startWandbServer(): Promise<WandbServer> {
  const uploads: Upload[] = []
  const server = createServer((request, response) => {
    void (async () => {
      const body = await textOf(request)
      const path = request.url ?? ''
      const run = /^\/files\/(.+)\/file_stream$/.exec(path)?.[1]
      if (run !== undefined) {
        const history = (JSON.parse(body) as Stream).files?.['wandb-history.jsonl']
        if (history !== undefined) {
          const rows = history.content.map((line) => JSON.parse(line) as Record<string, number>)
          uploads.push({ run, offset: history.offset, rows })
        }
      }
      const answer = path === '/graphql' ? { data: answerTo(JSON.parse(body) as Question) } : {}
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    })()
  })
  const port = await listenOnLoopback(server)
  return {
    url: `http://127.0.0.1:${port}`,
    uploads,
    close: () => closeServer(server),
  }
}

/** Runs the command like an operator, in the tracker's directory. */
export async function syncWandb(python: string, { directory, url }: { directory: string; url: string }): Promise<void> {
  await promisify(execFile)(python, ['-m', 'wandb', 'sync', '--yes'], {
    cwd: directory,
    timeout: HANG_MS,
    env: {
      PATH: process.env['PATH'],
      HOME: directory,
      WANDB_API_KEY: 'a'.repeat(40),
      WANDB_BASE_URL: url,
      WANDB_ERROR_REPORTING: 'false',
    },
  })
}

interface Question {
  query: string
  variables?: Record<string, string | null>
}

function answerTo({ query, variables = {} }: Question): object {
  if (query.includes('upsertBucket')) {
    const project = { id: 'p', name: variables['project'], entity: { id: 'e', name: variables['entity'] } }
    const bucket = { id: '1', name: variables['name'], displayName: 'run', config: '{}', historyLineCount: 0, project }
    return { upsertBucket: { bucket, inserted: true } }
  }
  const viewer = { id: 'v', entity: 'team', username: 'u', email: '', flags: '{}', teams: { edges: [] } }
  const versions = { min_cli_version: '0.8.0', max_cli_version: '0.99.0' }
  return { viewer, serverInfo: { cliVersionInfo: versions, features: [] }, createRunFiles: { runID: '1', files: [] } }
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}
