import type { StackFacts } from '../../src/stack/environment.ts'

/** Of a stack without anything: everything lies in one folder, and nothing answers. */
export function bareStackFacts(folder: string, name: string): StackFacts {
  return {
    name,
    cacheDir: folder,
    dataDir: folder,
    artifactsDir: folder,
    temporalAddress: '127.0.0.1:1',
    namespace: 'default',
    uiUrl: null,
    policyUrl: '',
    dockerHost: null,
    python: null,
    bundle: null,
    baseImage: null,
  }
}
