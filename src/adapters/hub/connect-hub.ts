import { patientFetch } from './requests.ts'

const PUBLIC_HUB = 'https://huggingface.co'

export interface HubPlace {
  /** Null: the public hub. */
  hubUrl: string | null
  /** A token of the hub, and the variable that it came from, for messages. */
  token: { variable: string; value: string | null }
}

export interface Hub {
  url: string
  fetch: typeof fetch
}

/**
 * The token goes to the hub alone: a file may lie on another host, whose address is signed.
 * @param send what makes the requests
 */
export function connectHub({ hubUrl, token }: HubPlace, send: typeof fetch = patientFetch): Hub {
  const url = (hubUrl ?? PUBLIC_HUB).replace(/\/$/, '')
  const { origin } = new URL(url)
  return {
    url,
    fetch: (address, init) => {
      const target = new URL(address instanceof Request ? address.url : address)
      if (token.value === null || target.origin !== origin) return send(address, init)
      const headers = new Headers(init?.headers)
      headers.set('authorization', `Bearer ${token.value}`)
      return send(address, { ...init, headers })
    },
  }
}
