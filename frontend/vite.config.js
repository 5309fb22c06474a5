import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vite';

const OUT = '../src/paceline/dashboard/static';

// By it a test without Node knows whether somebody forgot to build: the digest of all that the bundle is made from.
function sourcesDigest() {
  const files = readdirSync('src', { recursive: true })
    .map((name) => join('src', String(name)).replaceAll('\\', '/'))
    .filter((name) => /\.(tsx?|css)$/.test(name));
  const digest = createHash('sha256');
  for (const name of ['package-lock.json', 'vite.config.js', 'public/early.js', ...files].sort()) {
    digest.update(name + '\0');
    digest.update(readFileSync(name));
  }
  return digest.digest('hex');
}

// One script and one style sheet with fixed names: the page is opened from disk, where modules cannot be loaded.
export default defineConfig({
  plugins: [{ name: 'sources-digest', closeBundle: () => writeFileSync(join(OUT, 'sources.sha256'), sourcesDigest() + '\n') }],
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  define: { 'process.env.NODE_ENV': '"production"' },
  build: {
    outDir: OUT,
    emptyOutDir: true,
    target: 'es2022',
    cssCodeSplit: false,
    lib: { entry: 'src/main.tsx', formats: ['iife'], name: 'pacelineDashboard', fileName: () => 'app.js', cssFileName: 'app' },
  },
});
