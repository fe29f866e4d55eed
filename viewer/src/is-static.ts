/** Whether the page stands in a report of plain files: no server answers there. */
export const isStatic = document.querySelector('meta[name="longhaul-pages"][content="files"]') !== null
