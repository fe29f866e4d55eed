/** Shows texts of agents, as text nodes only. */
import { useMemo, useState } from 'preact/hooks'
import type { ShownText } from '../../src/viewer/pages.types.ts'
import { clipText, visibleParts } from '../../src/viewer/shared/visible-text.ts'

export function Visible({ text }: { text: string }) {
  const parts = useMemo(() => visibleParts(text), [text])
  return <>{parts.map(({ kind, text }) => (kind === 'text' ? text : <span class="mark">{text}</span>))}</>
}

/** Characters that each click adds to a long text: all of it would slow down the browser. */
const MORE_CHARS = 2_000_000

/** @param whole reads the full text if `shown` is only its beginning */
export function Block({ shown, label, whole }: { shown: ShownText; label: string; whole?: () => Promise<string> }) {
  const [text, setText] = useState<string | null>(null)
  const [limit, setLimit] = useState(0)
  const [why, setWhy] = useState('')
  const have = text ?? shown.text
  const clipped = useMemo(
    () => (limit === 0 ? clipText(have) : { text: have.slice(0, limit), hidden: Math.max(0, have.length - limit) }),
    [have, limit],
  )
  const hidden = clipped.hidden + (shown.chars - have.length)
  const open = async (): Promise<void> => {
    try {
      if (have.length < shown.chars && whole !== undefined) setText(await whole())
      setLimit(limit + MORE_CHARS)
    } catch (error) {
      setWhy(error instanceof Error ? error.message : String(error))
    }
  }
  return (
    <div class="block">
      <pre tabIndex={0} role="region" aria-label={label}>
        <Visible text={clipped.text} />
      </pre>
      {hidden > 0 ? (
        <button type="button" onClick={() => void open()}>
          Show {hidden.toLocaleString('en')} more characters
        </button>
      ) : null}
      {why === '' ? null : <p role="alert">{why}</p>}
    </div>
  )
}
