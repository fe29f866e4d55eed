/** The trust of a test cluster: its own certificate authority, and certificates for the server and its clients. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Identity {
  /** Common name: the user, for a client. */
  name: string
  /** Organisation: the user's group. */
  group?: string
  /** Negative: expired. @default 2 */
  days?: number
}

export interface ClusterAuthority {
  /** Writes `NAME.pem` and `NAME.key` into the folder. */
  issue(file: string, identity: Identity): void
  /** A kubeconfig for this file's certificate; kubectl and all parts of the cluster also read JSON. */
  kubeconfig(file: string, server: string): string
}

/** Certificate authority of one cluster, with the key that signs its service accounts. */
export function createClusterAuthority(directory: string): ClusterAuthority {
  mkdirSync(directory, { recursive: true })
  const at = (name: string): string => join(directory, name)
  const openssl = (...args: string[]): void => {
    execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'], timeout: 30_000 })
  }
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout']
  openssl('req', '-x509', ...newKey, at('ca.key'), '-out', at('ca.pem'), '-days', '2', '-subj', '/CN=cluster authority')
  openssl('genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-out', at('accounts.key'))
  openssl('pkey', '-in', at('accounts.key'), '-pubout', '-out', at('accounts.pub'))
  const encoded = (name: string): string => readFileSync(at(name)).toString('base64')
  return {
    issue(file, { name, group, days = 2 }) {
      const subject = `${group === undefined ? '' : `/O=${group}`}/CN=${name}`
      const [request, extensions] = [at(`${file}.csr`), at(`${file}.ext`)]
      writeFileSync(extensions, 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n')
      openssl('req', '-new', ...newKey, at(`${file}.key`), '-out', request, '-subj', subject)
      const signing = ['-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-CAcreateserial', '-extfile', extensions]
      openssl('x509', '-req', '-in', request, '-out', at(`${file}.pem`), '-days', String(days), ...signing)
    },
    kubeconfig(file, server) {
      return JSON.stringify({
        apiVersion: 'v1',
        kind: 'Config',
        clusters: [{ name: 'test', cluster: { server, 'certificate-authority-data': encoded('ca.pem') } }],
        users: [
          {
            name: file,
            user: {
              'client-certificate-data': encoded(`${file}.pem`),
              'client-key-data': encoded(`${file}.key`),
            },
          },
        ],
        contexts: [{ name: 'test', context: { cluster: 'test', user: file } }],
        'current-context': 'test',
      })
    },
  }
}
