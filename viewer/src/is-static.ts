/** Whether the page belongs to a static report, which has no server. */
export const isStatic = document.querySelector('meta[name="longhaul-pages"][content="files"]') !== null
