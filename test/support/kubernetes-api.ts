/**
 * The part of the Kubernetes API that `kubectl` needs for Jobs and JobSets: discovery, get, list, watch, create, delete in the
 * foreground. Real HTTP for the real client; the test plays a cluster's handling of a Job and its pods.
 */
import { execFileSync } from 'node:child_process'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { listenOnLoopback } from './loopback.ts'

export interface KubernetesObject {
  apiVersion: string
  kind: string
  metadata: {
    name: string
    namespace: string
    labels?: Record<string, string>
    uid?: string
    deletionTimestamp?: string
  }
  status?: { conditions: { type: string; status: string; reason?: string; message?: string }[] }
  [field: string]: unknown
}

export interface KubernetesApi {
  /** The value of KUBECONFIG. */
  config: string
  /** `POST jobs`, `DELETE jobs/NAME Foreground`, in order; without reads. */
  changes: string[]
  /** Jobs and JobSets by name. */
  objects: Map<string, KubernetesObject>
  /** NetworkPolicies by name; their changes are not in `changes`. */
  policies: Map<string, KubernetesObject>
  /** Number of lists of a kind, and of watches. */
  lists: number
  /** The answer to every request for pods, or for events. */
  pods: object[]
  events: object[]
  /** Whether creation of a NetworkPolicy is answered with 403. @default false */
  refusePolicies: boolean
  /** Whether a deleted object disappears at once; otherwise it stays, marked, until `finishDeletion`. @default true */
  podsEnd: boolean
  /** Status that refuses a deletion. */
  refuseDeletion: number | null
  finishDeletion(name: string): void
  close(): Promise<void>
}

export const withoutKubectl: string | false = hasKubectl() ? false : 'kubectl is not installed'

const RESOURCES = [
  { group: 'batch', version: 'v1', plural: 'jobs', singular: 'job', kind: 'Job' },
  { group: 'jobset.x-k8s.io', version: 'v1alpha2', plural: 'jobsets', singular: 'jobset', kind: 'JobSet' },
  {
    group: 'networking.k8s.io',
    version: 'v1',
    plural: 'networkpolicies',
    singular: 'networkpolicy',
    kind: 'NetworkPolicy',
  },
]

const NOW = '2026-01-01T00:00:00Z'

export async function startKubernetesApi(): Promise<KubernetesApi> {
  const objects = new Map<string, KubernetesObject>()
  const watchers = new Set<ServerResponse>()
  /** Deletions so far; the number of each is its resource version, and a watch continues where its list ended. */
  const deletions: string[] = []
  const folder = await mkdtemp(join(tmpdir(), 'kubernetes-api-'))
  const config = join(folder, 'config')
  const api: KubernetesApi = {
    config,
    changes: [],
    objects,
    policies: new Map(),
    lists: 0,
    pods: [],
    events: [],
    refusePolicies: false,
    podsEnd: true,
    refuseDeletion: null,
    finishDeletion(name) {
      const object = objects.get(name)
      objects.delete(name)
      const event = `${JSON.stringify({ type: 'DELETED', object })}\n`
      deletions.push(event)
      for (const watcher of watchers) watcher.write(event)
    },
    async close() {
      server.closeAllConnections()
      server.close()
      await rm(folder, { recursive: true })
    },
  }

  const answerPolicy = (method = '', name = '', body: string, response: ServerResponse): void => {
    if (method === 'POST') {
      const policy = JSON.parse(body) as KubernetesObject
      if (api.refusePolicies) return refuse(response, 403, 'Forbidden', 'networkpolicies is forbidden')
      if (api.policies.has(policy.metadata.name)) return refuse(response, 409, 'AlreadyExists', policy.metadata.name)
      api.policies.set(policy.metadata.name, policy)
      return say(response, 201, policy)
    }
    const found = api.policies.get(name)
    if (found === undefined) return refuse(response, 404, 'NotFound', name)
    if (method === 'DELETE') api.policies.delete(name)
    say(response, 200, found)
  }

  const answerResource = (request: IncomingMessage, response: ServerResponse, body: string): void => {
    const url = new URL(request.url ?? '', 'http://api')
    const [, , , , , plural = '', name] =
      /^\/apis\/([^/]+)\/([^/]+)\/(namespaces)\/([^/]+)\/([^/]+)(?:\/(.+))?$/.exec(url.pathname) ?? []
    const found = name === undefined ? undefined : objects.get(name)
    if (plural === 'networkpolicies') return answerPolicy(request.method, name, body, response)
    if (request.method === 'POST') {
      const object = JSON.parse(body) as KubernetesObject
      api.changes.push(`POST ${plural}`)
      if (objects.has(object.metadata.name)) return refuse(response, 409, 'AlreadyExists', object.metadata.name)
      object.metadata.uid = `uid-${api.changes.length}`
      objects.set(object.metadata.name, object)
      return say(response, 201, object)
    }
    if (name === undefined) {
      api.lists += 1
      const wanted = /metadata\.name=([^,]+)/.exec(url.searchParams.get('fieldSelector') ?? '')?.[1]
      const items = [...objects.values()].filter(({ metadata }) => wanted === undefined || metadata.name === wanted)
      if (url.searchParams.has('watch')) {
        response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders()
        for (const event of deletions.slice(Number(url.searchParams.get('resourceVersion')) - 1)) response.write(event)
        watchers.add(response)
        response.on('close', () => watchers.delete(response))
        return
      }
      const resourceVersion = String(deletions.length + 1)
      const kind = RESOURCES.find((resource) => resource.plural === plural)?.kind ?? ''
      return say(response, 200, { kind: `${kind}List`, apiVersion: 'v1', metadata: { resourceVersion }, items })
    }
    if (request.method === 'DELETE') {
      const { propagationPolicy = '' } = JSON.parse(body === '' ? '{}' : body) as { propagationPolicy?: string }
      api.changes.push(`DELETE ${plural}/${name} ${propagationPolicy}`)
      if (api.refuseDeletion !== null) return refuse(response, api.refuseDeletion, 'Forbidden', name)
    }
    if (found === undefined) return refuse(response, 404, 'NotFound', `${plural} "${name}" not found`)
    if (request.method === 'DELETE') {
      found.metadata.deletionTimestamp = NOW
      if (api.podsEnd) api.finishDeletion(name)
    }
    say(response, 200, found)
  }

  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += String(chunk)))
    request.on('end', () => {
      const { pathname } = new URL(request.url ?? '', 'http://api')
      const discovered = discover(pathname)
      const core = /^\/api\/v1\/namespaces\/[^/]+\/(pods|events)$/.exec(pathname)?.[1] as 'pods' | 'events' | undefined
      if (core !== undefined) say(response, 200, listOf(core === 'pods' ? 'Pod' : 'Event', api[core]))
      // Some versions query the namespace, which a worker's account may not read.
      else if (/^\/api\/v1\/namespaces\/[^/]+$/.test(pathname))
        refuse(response, 403, 'Forbidden', 'namespaces is forbidden')
      else if (discovered !== null) say(response, 200, discovered)
      else if (pathname.includes('/namespaces/')) answerResource(request, response, body)
      else refuse(response, 404, 'NotFound', pathname)
    })
  })
  const port = await listenOnLoopback(server)
  await writeFile(config, JSON.stringify(kubeconfig(`http://127.0.0.1:${port}`)))
  return api
}

function listOf(kind: string, objects: object[]): object {
  const items = objects.map((object) => ({ apiVersion: 'v1', kind, metadata: {}, ...object }))
  return { kind: `${kind}List`, apiVersion: 'v1', metadata: {}, items }
}

function discover(path: string): object | null {
  if (path === '/api') return { kind: 'APIVersions', versions: ['v1'] }
  if (path === '/api/v1') {
    const resources = [
      { name: 'pods', singularName: 'pod', namespaced: true, kind: 'Pod', verbs: ['list'] },
      { name: 'events', singularName: 'event', namespaced: true, kind: 'Event', verbs: ['list'] },
    ]
    return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: 'v1', resources }
  }
  if (path === '/apis') {
    const groups = RESOURCES.map(({ group: name, version }) => {
      const preferredVersion = { groupVersion: `${name}/${version}`, version }
      return { name, versions: [preferredVersion], preferredVersion }
    })
    return { kind: 'APIGroupList', apiVersion: 'v1', groups }
  }
  // Enough for the client to leave the validation of fields to the server.
  if (path === '/openapi/v3') {
    const paths = RESOURCES.map(({ group, version }) => `apis/${group}/${version}`)
    return { paths: Object.fromEntries(paths.map((at) => [at, { serverRelativeURL: `/openapi/v3/${at}` }])) }
  }
  const resource = RESOURCES.find(({ group, version }) => path.endsWith(`/apis/${group}/${version}`))
  if (resource === undefined) return null
  if (path.startsWith('/openapi')) return openApiOf(resource)
  const { group, version, plural, singular, kind } = resource
  const verbs = ['create', 'delete', 'get', 'list', 'watch']
  const resources = [{ name: plural, singularName: singular, namespaced: true, kind, verbs }]
  return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: `${group}/${version}`, resources }
}

function openApiOf({ group, version, plural, kind }: (typeof RESOURCES)[number]): object {
  const patch = {
    parameters: [{ name: 'fieldValidation', in: 'query', schema: { type: 'string' } }],
    responses: {},
    'x-kubernetes-group-version-kind': { group, version, kind },
  }
  const path = `/apis/${group}/${version}/namespaces/{namespace}/${plural}/{name}`
  return { openapi: '3.0.0', info: { title: 'Kubernetes', version: 'v1' }, paths: { [path]: { patch } } }
}

function say(response: ServerResponse, status: number, value: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

function refuse(response: ServerResponse, code: number, reason: string, message: string): void {
  say(response, code, { kind: 'Status', apiVersion: 'v1', status: 'Failure', message, reason, code })
}

function kubeconfig(server: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server } }],
    users: [{ name: 'u', user: {} }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
}

function hasKubectl(): boolean {
  try {
    execFileSync('kubectl', ['version', '--client'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
