/** Labels of everything Longhaul creates in an engine (they cannot change after creation). */
export const LABELS = {
  project: 'longhaul.project',
  run: 'longhaul.run',
  episode: 'longhaul.episode',
  role: 'longhaul.role',
  /** Placement of the episode: the fence at creation. */
  fence: 'longhaul.fence',
  /** Milliseconds since 1970. */
  created: 'longhaul.created',
  leaseMs: 'longhaul.lease-ms',
  /** After this long it is removed whatever its owner says. */
  maxLifeMs: 'longhaul.max-life-ms',
  owner: 'longhaul.owner',
  host: 'longhaul.host',
  image: 'longhaul.image-digest',
} as const

export const PROJECT = 'longhaul'
