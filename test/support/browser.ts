/** Chromium for tests and measurements: Debian's, steered by playwright-core, which brings no browser of its own. */
import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'
import { installPackages, mayInstallPackages } from '../../src/stack/setup/system-packages.ts'

const PLACES = [
  process.env['LONGHAUL_CHROMIUM'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]

function findBrowser(): string | null {
  return PLACES.find((path) => path !== undefined && path !== '' && existsSync(path)) ?? null
}

/** Installed where this process may. @throws Error where there is none and none can be had */
export async function openBrowser(): Promise<Browser> {
  if (findBrowser() === null && (await mayInstallPackages())) {
    const context = { log: console.error, signal: new AbortController().signal }
    await installPackages({ packages: ['chromium'], context })
  }
  const executablePath = findBrowser()
  if (executablePath === null) {
    throw new Error('Expected Chromium: apt-get install chromium, or name it in LONGHAUL_CHROMIUM')
  }
  // Root's Chromium has no sandbox of its own; its pages are the viewer's and the test's.
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
}
