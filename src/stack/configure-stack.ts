import { readCodecKeys } from '../platform/payload-codec.ts'
import { namedTemporalServer } from '../platform/temporal-settings.ts'
import { resolve } from 'node:path'
import { choosePort, type PortReservations } from '../platform/ports.ts'
import { readJson } from '../platform/files.ts'
import type { StackFacts } from './environment.ts'
import type { GivenSettings } from './given-settings.ts'
import type { StackPaths } from './paths.ts'
import type { SetUpResult } from './setup/set-up.ts'
import {
  codecService,
  policyService,
  postgresService,
  temporalServerService,
  temporalService,
  temporalUiService,
  type Service,
  type WorkerRole,
  workerService,
} from './services.ts'
import type { StackConfig } from './stack-record.ts'
import { INNER_PORTS, usualInnerPorts, serverFiles, writeServerFiles } from './temporal-server-files.ts'

/** Temporal's default ports; that of its UI is 1000 higher. */
const TEMPORAL_PORT = 7233
const UI_PORT = 8233
const POLICY_PORT = 8333
const CODEC_PORT = 8234
const VIEWER_PORT = 8433

export interface ConfigureStackInput {
  paths: StackPaths
  prepared: SetUpResult
  roles: readonly WorkerRole[]
  policyServer: boolean
  namespace: string
  fingerprint: string
  given: GivenSettings
  /** Hold each chosen port until its service has opened it. */
  reservations: PortReservations
}

/** Decides addresses and processes; starts nothing. Prefers the ports of the last start, so that bookmarks stay valid. */
export async function configureStack(input: ConfigureStackInput): Promise<StackConfig> {
  const { paths, prepared, roles, policyServer, namespace, fingerprint, given, reservations } = input
  const before = (await readJson<StackConfig>(paths.configFile))?.facts
  const external = namedTemporalServer()
  const ownsTemporal = external === null
  const taken = new Set<number>()
  const port = (last: string | null | undefined, usual: number): Promise<number> =>
    choosePort({ preferred: [portOf(last), usual].filter((value) => value !== null), taken, reservations })

  const temporalPort = ownsTemporal ? await port(before?.temporalAddress, TEMPORAL_PORT) : 0
  const uiPort = ownsTemporal ? await port(before?.uiUrl, UI_PORT) : 0
  // Read here, so that an invalid key file is reported before anything starts.
  const codecKeys = readCodecKeys() === null ? null : resolve(process.env['LONGHAUL_CODEC_KEYS'] ?? '')
  const codecPort = ownsTemporal && codecKeys !== null ? await port(null, CODEC_PORT) : null
  const policyPort = policyServer ? await port(before?.policyUrl, POLICY_PORT) : 0
  const namedViewer = process.env['LONGHAUL_VIEWER_URL'] ?? ''
  const viewerPort = await port(before?.viewerUrl, VIEWER_PORT)
  const facts: StackFacts = {
    name: paths.name,
    cacheDir: paths.cacheDir,
    dataDir: paths.dataDir,
    artifactsDir: paths.artifactsDir,
    temporalAddress: external === null ? `127.0.0.1:${temporalPort}` : external.address,
    namespace,
    ...(ownsTemporal ? { temporalStore: describeStoreOf(paths, prepared) } : {}),
    uiUrl: ownsTemporal ? `http://127.0.0.1:${uiPort}` : null,
    policyUrl: policyServer ? `http://127.0.0.1:${policyPort}` : (process.env['LONGHAUL_POLICY_URL'] ?? ''),
    viewerUrl: namedViewer === '' ? `http://127.0.0.1:${viewerPort}/` : namedViewer,
    dockerHost: prepared.engine?.dockerHost ?? null,
    python: prepared.python,
    bundle: prepared.bundle,
    baseImage: prepared.baseImage,
    codecKeys,
  }

  const services: Service[] = []
  if (prepared.temporal !== null) {
    const { temporal: cli } = prepared
    services.push(temporalService({ cli, dataDir: paths.dataDir, port: temporalPort, uiPort, namespace, codecPort }))
  }
  if (prepared.temporalServer !== null) {
    const { database, ...server } = prepared.temporalServer
    const files = serverFiles(paths)
    const usual = await usualInnerPorts(files)
    const inner: number[] = []
    while (inner.length < INNER_PORTS) inner.push(await choosePort({ preferred: usual, taken, reservations }))
    const { address, cluster } = database
    const ports = { frontend: temporalPort, inner }
    await writeServerFiles({ files, address, ports, uiPort, codecPort, namespace })
    if (cluster !== null) services.push(postgresService(cluster))
    services.push(temporalServerService({ server, files }), temporalUiService({ server, files, port: uiPort }))
  }
  if (codecPort !== null) services.push(codecService({ facts, port: codecPort, uiPort }))
  if (policyServer && prepared.python !== null) {
    const { python } = prepared
    services.push(policyService({ facts: { ...facts, python }, port: policyPort, stateDir: paths.policyDir }))
  }
  for (const role of roles) services.push(workerService({ role, facts }))
  return {
    facts,
    fingerprint,
    given,
    ownsTemporal,
    ownsEngine: prepared.engine?.isPrivate ?? false,
    runDir: paths.runDir,
    logsDir: paths.logsDir,
    recordFile: paths.recordFile,
    services,
  }
}

function describeStoreOf({ dataDir }: StackPaths, { temporalServer }: SetUpResult): string {
  return temporalServer === null ? `development server, file in ${dataDir}` : temporalServer.database.address.title
}

function portOf(address: string | null | undefined): number | null {
  const port = /:(\d+)\/?$/.exec(address ?? '')?.[1]
  return port === undefined ? null : Number(port)
}
