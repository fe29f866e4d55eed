import { join } from 'node:path'

const here = import.meta.dirname

/** One classic script and one style sheet with fixed names: a page that was opened as a file can load no modules. */
// oxlint-disable-next-line import/no-default-export -- Vite reads it
export default {
  root: here,
  publicDir: join(here, 'public'),
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  define: { 'process.env.NODE_ENV': '"production"' },
  build: {
    emptyOutDir: true,
    target: 'es2022',
    lib: {
      entry: join(here, 'src/main.tsx'),
      formats: ['iife'],
      name: 'longhaulViewer',
      fileName: () => 'viewer.js',
      cssFileName: 'viewer',
    },
  },
}
