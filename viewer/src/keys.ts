import { useEffect } from 'preact/hooks'

/** Keys of a page, by what the keyboard calls them. Nothing is taken from fields, and nothing that has a modifier. */
export function useKeys(keys: Record<string, () => void>): void {
  useEffect(() => {
    const follow = (event: KeyboardEvent): void => {
      const isTyping = event.target instanceof HTMLElement && event.target.matches('input, select, textarea')
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return
      const act = Object.hasOwn(keys, event.key) ? keys[event.key] : undefined
      if (act === undefined) return
      event.preventDefault()
      act()
    }
    addEventListener('keydown', follow)
    return () => removeEventListener('keydown', follow)
  })
}
