/** The route of the window, followed and replaced. */
import { useEffect, useState } from 'preact/hooks'
import { readRoute, type Route } from '../../src/viewer/shared/address.ts'

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    const follow = (): void => setHash(location.hash)
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  return readRoute(hash)
}

/** Says in the address what is shown, without a step back for each key. */
export function replaceRoute(link: string): void {
  if (location.hash === link) return
  history.replaceState(null, '', link)
  dispatchEvent(new HashChangeEvent('hashchange'))
}
