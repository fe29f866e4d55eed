import { join } from 'node:path'

const here = import.meta.dirname

/** Classic scripts and one style sheet with fixed names: pages opened as files cannot load modules. Each script is a build. */
// oxlint-disable-next-line import/no-default-export -- Vite reads it
export default ({ mode }) => ({
  root: here,
  publicDir: join(here, 'public'),
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  define: { 'process.env.NODE_ENV': '"production"' },
  build: {
    // The pages' script is built first, and must stay.
    emptyOutDir: mode !== 'start',
    target: 'es2022',
    lib: {
      entry: join(here, mode === 'start' ? 'src/start.ts' : 'src/main.tsx'),
      formats: ['iife'],
      name: mode === 'start' ? 'longhaulStart' : 'longhaulViewer',
      fileName: () => (mode === 'start' ? 'start.js' : 'viewer.js'),
      cssFileName: 'viewer',
    },
  },
})
