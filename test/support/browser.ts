/** Chromium for tests and measurements: Debian's package, driven by playwright-core, which includes no browser. */
import { existsSync } from 'node:fs'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
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

/** Installs Chromium if this process may. @throws Error if there is none and it cannot be installed */
export async function openBrowser(): Promise<Browser> {
  if (findBrowser() === null && (await mayInstallPackages())) {
    const context = { log: console.error, signal: new AbortController().signal }
    await installPackages({ packages: ['chromium'], context })
  }
  const executablePath = findBrowser()
  if (executablePath === null) {
    throw new Error('Expected Chromium: apt-get install chromium, or name it in LONGHAUL_CHROMIUM')
  }
  // Root's Chromium has no sandbox; it only loads pages of the viewer and the test.
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
}

/**
 * A page that other work on this machine does not break. Chromium aborts every opening connection when a network interface appears or
 * disappears (ERR_NETWORK_CHANGED), as those of containers and pods often do; a page that misses one of its modules then stays blank.
 * So this process makes the page's requests, except event streams, which a page reopens itself.
 */
export async function openSteadyPage(browser: Browser, options: BrowserContextOptions = {}): Promise<Page> {
  const page = await browser.newPage(options)
  await page.route(/^http:/, async (route) => {
    if (route.request().resourceType() === 'eventsource') return route.continue()
    try {
      await route.fulfill({ response: await route.fetch({ maxRedirects: 0, maxRetries: 3 }) })
    } catch {
      // The page or the server is gone; a server's absence is reported to the page.
      await route.abort().catch(() => undefined)
    }
  })
  return page
}
