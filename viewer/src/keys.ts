import { useEffect, useRef } from 'preact/hooks'

/** Keyboard shortcuts of a page, by `KeyboardEvent.key`. Keys in form fields and keys with modifiers are ignored. */
export function useKeys(keys: Record<string, () => void>): void {
  // The handlers of the newest rendering: effects run after a frame, and the next key may come before it.
  const newest = useRef(keys)
  newest.current = keys
  useEffect(() => {
    const follow = (event: KeyboardEvent): void => {
      const isTyping = event.target instanceof HTMLElement && event.target.matches('input, select, textarea')
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return
      const act = Object.hasOwn(newest.current, event.key) ? newest.current[event.key] : undefined
      if (act === undefined) return
      event.preventDefault()
      act()
    }
    addEventListener('keydown', follow)
    return () => removeEventListener('keydown', follow)
  }, [])
}
