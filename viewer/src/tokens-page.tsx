import { useMemo, useState } from 'preact/hooks'
import type { TokensPage as TokensData } from '../../src/viewer/pages.types.ts'
import { isOutsideClip } from '../../src/viewer/shared/token-clip.ts'
import { linkTo } from '../../src/viewer/shared/address.ts'
import { usePage } from './data.ts'
import { useKeys } from './keys.ts'
import { WaitingPage } from './parts.tsx'
import { Visible } from './text.tsx'
import { VirtualRows } from './virtual-rows.tsx'

const COLUMNS = ['at', 'token', 'id', 'mask', 'advantage', 'log-probability', 'ratio', 'clip', 'policy'] as const

export function TokensPage({ episode }: { episode: string }) {
  const loaded = usePage<TokensData>(`tokens/${episode}`)
  const [chosen, setChosen] = useState(-1)
  useKeys({ u: () => (location.hash = linkTo('episode', episode)) })
  if (loaded.state !== 'there') {
    const up = <a href={linkTo('episode', episode)}>Episode</a>
    return <WaitingPage of={loaded} what="the tokens" title={`Tokens of ${episode}`} up={up} />
  }
  const { page } = loaded
  return (
    <main>
      <p>
        <a href={linkTo('episode', episode)}>Episode</a>
      </p>
      <h1>
        Tokens of <Visible text={episode} />
      </h1>
      <Counts page={page} />
      <VirtualRows
        label="Tokens"
        columns={COLUMNS}
        count={page.ids.length}
        chosen={chosen}
        onChoose={setChosen}
        className="tokens"
        row={(at) => cellsOf(page, at)}
      />
    </main>
  )
}

function Counts({ page }: { page: TokensData }) {
  const { ids, mask, versions, batch, ratios, clip } = page
  const counts = useMemo(() => {
    const trained = mask.filter((one) => one === 1).length
    const sampled = versions.filter((version) => version >= 0).length
    return { trained, sampled }
  }, [page])
  return (
    <>
      <p>
        {ids.length} tokens: {counts.sampled} sampled, {counts.trained} of them trained on. Read from{' '}
        <Visible text={batch} />.
      </p>
      <p class="note">
        {ratios === null
          ? 'The trainer kept no log-probabilities of its own for this batch: there is no ratio.'
          : 'Ratio: the trainer’s probability before its first step over the sampled one. The ratio of later steps is not stored by token.'}
        {clip === null ? '' : ` Clip marks a ratio outside 1 − ${clip.low} to 1 + ${clip.high}.`} No entry where a token
        was not sampled, and no ratio where it was not trained on.
      </p>
    </>
  )
}

function cellsOf(
  { ids, pieces, mask, advantages, logprobs, ratios, clip, versions, policies }: TokensData,
  at: number,
) {
  const version = versions[at] ?? -1
  const isSampled = version >= 0
  const number = (values: number[] | null): string => (isSampled && values !== null ? (values[at] ?? 0).toFixed(4) : '')
  const isTrained = mask[at] === 1
  const ratio = ratios?.[at]
  return [
    at,
    <code class={isTrained ? 'trained' : isSampled ? 'masked' : 'context'}>
      <Visible text={pieces?.[at] ?? ''} />
    </code>,
    ids[at],
    isTrained ? '1 trained' : isSampled ? '0 masked' : '0 context',
    isTrained ? number(advantages) : '',
    number(logprobs),
    isTrained ? number(ratios) : '',
    isTrained && ratio !== undefined && isOutsideClip(ratio, clip) ? 'outside' : '',
    isSampled ? <Visible text={policies[version] ?? ''} /> : '',
  ]
}
