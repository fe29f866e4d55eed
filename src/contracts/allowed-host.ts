/** An entry of `sandbox.allow`: `pypi.org`, `*.example.org`, each with or without `:port`. Names only: an address says nothing of
 *  who answers there, and those of the host's own networks are never reached. */
export const ALLOWED_HOST =
  /^(?:\*\.)?(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?(?::\d{1,5})?$/
