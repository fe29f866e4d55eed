import { Component, type ComponentChildren, render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { BothPage, ComparePage } from './compare-page.tsx'
import { EpisodePage } from './episode-page.tsx'
import { useKeys } from './keys.ts'
import { NightsPage, TrendPage } from './nights-page.tsx'
import { useRoute } from './route.ts'
import { RunPage, RunsPage } from './run-page.tsx'
import { TokensPage } from './tokens-page.tsx'
import { spelled } from '../../src/viewer/shared/visible-text.ts'
import './style.css'

function App() {
  const { kind, of, query } = useRoute()
  const [hasHelp, setHelp] = useState(false)
  useKeys({ '?': () => setHelp(!hasHelp) })
  // Tabs and the browser's history tell the pages apart by it.
  useEffect(() => {
    document.title = titleOf(kind, of)
  }, [kind, of])
  return (
    <>
      {hasHelp ? (
        <aside aria-label="Keys">
          j, k: next, previous. Enter: open. n, p: next, previous failing turn. u: up. /: search. ?: this help.
        </aside>
      ) : null}
      <Guard key={`${kind}/${of}`}>{pageOf(kind, of, query)}</Guard>
    </>
  )
}

/** From the address alone, whose text may be hostile. */
function titleOf(kind: string, of: string): string {
  const subject = kind === '' ? 'runs' : kind === 'run' ? of : `${kind} ${of}`
  return `${spelled(subject.trim())} · Longhaul`
}

function pageOf(kind: string, of: string, query: string) {
  switch (kind) {
    case 'run':
      return <RunPage run={of} query={query} />
    case 'episode':
      return <EpisodePage episode={of} query={query} />
    case 'tokens':
      return <TokensPage episode={of} />
    case 'compare':
      return <ComparePage of={of} />
    case 'both':
      return <BothPage of={of} />
    case 'nights':
      return <NightsPage />
    case 'trend':
      return <TrendPage series={of} query={query} />
    default:
      return <RunsPage />
  }
}

/** Shows the error of a failed page instead of an empty window. */
class Guard extends Component<{ children: ComponentChildren }, { error: string | null }> {
  override state = { error: null }

  static override getDerivedStateFromError(error: unknown) {
    return { error: error instanceof Error ? error.message : String(error) }
  }

  render() {
    return this.state.error === null ? this.props.children : <p role="alert">This page failed: {this.state.error}</p>
  }
}

const app = document.getElementById('app')
if (app !== null) render(<App />, app)
