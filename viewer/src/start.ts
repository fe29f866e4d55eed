/**
 * Asks for the data of the address while the page's script and styles are still loaded: a server then reads records at the time at which
 * the browser compiles. It is a file of its own because the content policy allows no inline script, and small so that it runs first.
 */
import { dataAddress, firstData } from '../../src/viewer/shared/address.ts'
import { dataFile } from '../../src/viewer/shared/data-file.ts'
import { TOKEN_KEY } from '../../src/viewer/shared/token-key.ts'
import { isStatic } from './is-static.ts'

declare global {
  interface Window {
    /** Answers by the name of their data; the page's script takes each of them once. */
    longhaulAsked?: Map<string, Promise<Response>>
  }
}

for (const name of firstData(location.hash)) {
  if (isStatic) preloadScript(dataFile(name))
  else ask(name)
}
// After the questions, in the time of their answers: the browser reads its storage from disk, and the script waits for that.
if (!isStatic) rememberToken()

function ask(name: string): void {
  const answer = fetch(dataAddress(name))
  // The page's script says why there is no answer, if it still wants one.
  answer.catch(() => undefined)
  window.longhaulAsked ??= new Map()
  window.longhaulAsked.set(name, answer)
}

/** For links without the token, which the server's first page completes in this browser alone. */
function rememberToken(): void {
  try {
    localStorage.setItem(TOKEN_KEY, location.pathname.split('/')[1] ?? '')
  } catch {
    // A browser that keeps nothing: such links ask for the whole address.
  }
}

function preloadScript(href: string): void {
  const link = document.createElement('link')
  link.rel = 'preload'
  link.as = 'script'
  link.href = href
  document.head.append(link)
}
