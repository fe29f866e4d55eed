import type { Client } from '@temporalio/client'
import { defaultPayloadConverter, type Payload } from '@temporalio/common'

/** What a payload of a raw answer says; the client decodes its own answers by itself. */
export async function decodePayload(client: Client, payload: Payload): Promise<unknown> {
  let payloads = [payload]
  for (const codec of client.options.loadedDataConverter.payloadCodecs.toReversed())
    payloads = await codec.decode(payloads)
  const [decoded = payload] = payloads
  return defaultPayloadConverter.fromPayload(decoded)
}

/** The message of a raw failure, also where the failure converter put it into a payload. */
export async function messageOf(
  client: Client,
  failure: { message?: string | null; encodedAttributes?: Payload | null },
): Promise<string> {
  const { encodedAttributes, message } = failure
  if (encodedAttributes === null || encodedAttributes === undefined) return message ?? ''
  const attributes = (await decodePayload(client, encodedAttributes)) as { message?: string } | null
  return attributes?.message ?? message ?? ''
}
