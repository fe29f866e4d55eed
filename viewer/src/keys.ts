import { useEffect, useRef } from 'preact/hooks'

/**
 * Keyboard shortcuts of a page, by `KeyboardEvent.key`. Keys in form fields, keys with modifiers and Enter on a link or a button, which it
 * activates, are ignored.
 */
export function useKeys(keys: Record<string, () => void>): void {
  // The handlers of the newest rendering: effects run after a frame, and the next key may come before it.
  const newest = useRef(keys)
  newest.current = keys
  useEffect(() => {
    const follow = (event: KeyboardEvent): void => {
      const own = event.key === 'Enter' ? 'input, select, textarea, a, button, summary' : 'input, select, textarea'
      const isOwn = event.target instanceof HTMLElement && event.target.matches(own)
      if (isOwn || event.ctrlKey || event.metaKey || event.altKey) return
      const act = Object.hasOwn(newest.current, event.key) ? newest.current[event.key] : undefined
      if (act === undefined) return
      event.preventDefault()
      act()
    }
    addEventListener('keydown', follow)
    return () => removeEventListener('keydown', follow)
  }, [])
}
