import { defineConfig } from 'vite';

// One script and one style sheet with fixed names: the page is opened from disk, where modules cannot be loaded.
export default defineConfig({
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  define: { 'process.env.NODE_ENV': '"production"' },
  build: {
    outDir: '../src/paceline/report/static',
    emptyOutDir: true,
    target: 'es2022',
    cssCodeSplit: false,
    lib: { entry: 'src/main.tsx', formats: ['iife'], name: 'pacelineDashboard', fileName: () => 'app.js', cssFileName: 'app' },
  },
});
