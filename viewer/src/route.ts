/** Follows and replaces the route of the window. */
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

/** Changes the address without a history entry for each key press. */
export function replaceRoute(link: string): void {
  if (location.hash === link) return
  history.replaceState(null, '', link)
  dispatchEvent(new HashChangeEvent('hashchange'))
}
