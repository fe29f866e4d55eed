/** Where a browser keeps the token of the viewer at this address, in its local storage: apart for each port. */
export const TOKEN_KEY = 'longhaul-viewer-token'
