/**
 * Requests the data of the address while the page's script and styles are still loading, so that the server reads records while the browser
 * compiles. A separate file, since the content policy allows no inline script; small, so that it runs first.
 */
import { dataAddress, firstData } from '../../src/viewer/shared/address.ts'
import { dataFile } from '../../src/viewer/shared/data-file.ts'
import { TOKEN_KEY } from '../../src/viewer/shared/token-key.ts'
import { isStatic } from './is-static.ts'

declare global {
  interface Window {
    /** Responses by the name of their page; the page's script takes each of them once. */
    longhaulAsked?: Map<string, Promise<Response>>
  }
}

for (const name of firstData(location.hash)) {
  if (isStatic) preloadScript(dataFile(name))
  else ask(name)
}
// After the requests, while they are pending: the browser reads local storage from disk, which blocks the script.
if (!isStatic) rememberToken()

function ask(name: string): void {
  const answer = fetch(dataAddress(name))
  // The page's script reports the failure if it still needs the response.
  answer.catch(() => undefined)
  window.longhaulAsked ??= new Map()
  window.longhaulAsked.set(name, answer)
}

/** For links without the token, which the server's first page completes in this browser only. */
function rememberToken(): void {
  try {
    localStorage.setItem(TOKEN_KEY, location.pathname.split('/')[1] ?? '')
  } catch {
    // Without local storage, such links ask for the full address.
  }
}

function preloadScript(href: string): void {
  const link = document.createElement('link')
  link.rel = 'preload'
  link.as = 'script'
  link.href = href
  document.head.append(link)
}
