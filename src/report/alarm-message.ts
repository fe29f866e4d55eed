/** Formats an alarm as its receiver expects it. */
import { ALARM_FACT_PATTERN, type ALARM_FACTS } from '../contracts/alarm-facts.ts'
import type { Alarm, AlarmTemplate } from '../contracts/alarms.types.ts'

/** Chat services cut or refuse longer messages. */
const MOST_CHARS = 1_800

/** JSON body of the request. Facts replace names only inside strings, so no text of a run can change the message's structure. */
export function alarmMessage(alarm: Alarm, template: AlarmTemplate): string {
  if (template === 'json') return JSON.stringify(alarm)
  if (template === 'slack') return JSON.stringify({ text: slackText(formatAlarm(alarm)) })
  // No text of a run may mention users of the channel.
  if (template === 'discord') return JSON.stringify({ content: formatAlarm(alarm), allowed_mentions: { parse: [] } })
  return JSON.stringify(filled(template, factsOf(alarm)))
}

function formatAlarm({ title, text, link }: Alarm): string {
  const words = `${title}\n${text}`
  const cut = words.length > MOST_CHARS ? `${words.slice(0, MOST_CHARS)} …` : words
  return link === null ? cut : `${cut}\n${link}`
}

/** Escapes the three characters of links and mentions in Slack: https://docs.slack.dev/messaging/formatting-message-text */
function slackText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

type Facts = Record<(typeof ALARM_FACTS)[number], string>

function factsOf(alarm: Alarm): Facts {
  const { id, kind, title, text, run, series, workflowId, link, at } = alarm
  return {
    id,
    kind,
    title,
    text: text.slice(0, MOST_CHARS),
    message: formatAlarm(alarm),
    run: run ?? '',
    series: series ?? '',
    workflowId: workflowId ?? '',
    link: link ?? '',
    at,
  }
}

function filled(value: unknown, facts: Facts): unknown {
  if (typeof value === 'string') {
    return value.replaceAll(ALARM_FACT_PATTERN, (whole, name: string) =>
      Object.hasOwn(facts, name) ? facts[name as keyof Facts] : whole,
    )
  }
  if (Array.isArray(value)) return value.map((one) => filled(one, facts))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, filled(one, facts)]))
}
