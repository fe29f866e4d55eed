/** Key of the viewer's token in local storage, which browsers keep apart for each port. */
export const TOKEN_KEY = 'longhaul-viewer-token'
