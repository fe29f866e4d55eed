/** Names that an own template may have in its texts, as `{{title}}`. */
export const ALARM_FACTS = [
  'id',
  'kind',
  'title',
  'text',
  'message',
  'run',
  'series',
  'workflowId',
  'link',
  'at',
] as const

/** A name in a text. */
export const ALARM_FACT_PATTERN = /\{\{([A-Za-z]{1,20})\}\}/g
