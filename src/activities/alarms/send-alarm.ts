import {
  postWebhook,
  parseWebhookUrl,
  INSIDE_VARIABLE,
  type PostWebhookOptions,
} from '../../adapters/webhook/post-webhook.ts'
import type { Alarm, AlarmReceiver } from '../../contracts/alarms.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { alarmKeys } from '../../contracts/keys.ts'
import { alarmMessage } from '../../report/alarm-message.ts'
import { readOrThrow } from '../runtime/stored-records.ts'

export interface SendingWorld {
  store: ArtifactStore
  env: NodeJS.ProcessEnv
  /** @default none */
  post?: PostWebhookOptions
}

/**
 * Sends one alarm and records its delivery. If the worker dies in between, the alarm is sent again with the same id, so delivery is at
 * least once.
 */
export async function sendAlarm(
  { store, env, post = {} }: SendingWorld,
  { alarm: id, receiver }: { alarm: string; receiver: AlarmReceiver },
  signal: AbortSignal,
): Promise<{ sent: boolean }> {
  if ((await store.readRecord(alarmKeys.sent(id))) !== null) return { sent: false }
  const alarm = await readOrThrow<Alarm>(store, alarmKeys.alarm(id))
  const { url, secret } = readReceiver(receiver, env)
  const body = alarmMessage(withoutHash(alarm), receiver.template)
  const inside = (env[INSIDE_VARIABLE] ?? '').split(',').map((name) => name.trim())
  await postWebhook({ url, urlVariable: receiver.urlVariable, secret, id, body }, signal, { inside, ...post })
  await store.claimRecord(alarmKeys.sent(id), { schema: 'longhaul.alarm-sent/1', id, at: new Date().toISOString() })
  return { sent: true }
}

/** The record's own hash is not part of the alarm. */
function withoutHash(alarm: Alarm & { sha256?: string }): Alarm {
  const { sha256: _, ...rest } = alarm
  return rest
}

/** @throws LonghaulError `Config.Invalid`, which names the variables without their values */
export function readReceiver(
  { urlVariable, secretVariable }: AlarmReceiver,
  env: NodeJS.ProcessEnv,
): { url: string; secret: string | null } {
  const url = required(urlVariable, env)
  parseWebhookUrl(url, urlVariable)
  return { url, secret: secretVariable === null ? null : required(secretVariable, env) }
}

function required(name: string, env: NodeJS.ProcessEnv): string {
  const value = env[name]
  if (value !== undefined && value !== '') return value
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected ${JSON.stringify(name)}, which the alarms of schedules.yaml name, in the environment of the control workers: export it before longhaul up, or in the service of the control workers`,
  })
}
