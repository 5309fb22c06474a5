// Light and dark: what the system says, unless the reader chose.

import { useEffect, useState } from 'preact/hooks';

export type Theme = 'light' | 'dark';
type Choice = Theme | 'system';

const KEY = 'paceline-theme';
const listeners = new Set<() => void>();
const system = matchMedia('(prefers-color-scheme: dark)');

function stored(): Choice {
  try {
    const found = localStorage.getItem(KEY);
    return found === 'light' || found === 'dark' ? found : 'system';
  } catch {
    return 'system'; // a page that may keep nothing
  }
}

const printing = matchMedia('print');
let choice: Choice = stored();

export function theme(): Theme {
  if (printing.matches) return 'light'; // ink on paper
  return choice === 'system' ? (system.matches ? 'dark' : 'light') : choice;
}

function apply(): void {
  document.documentElement.dataset.theme = theme();
  listeners.forEach((listener) => listener());
}

export function toggleTheme(): void {
  choice = theme() === 'dark' ? 'light' : 'dark';
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // holds until the page is closed
  }
  apply();
}

system.addEventListener('change', apply);
printing.addEventListener('change', apply);
apply();

export function useTheme(): Theme {
  const [now, setNow] = useState(theme);
  useEffect(() => {
    const listener = () => setNow(theme());
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return now;
}

/** A colour of the style sheet, always of six hexadecimal digits: what builds the sheet writes some with three. */
export function colour(name: string): string {
  const found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  return found.replace(/^#(.)(.)(.)$/, '#$1$1$2$2$3$3');
}

/** Colours of lines: told apart by people who see fewer colours, too (after Okabe and Ito). */
export const LINES = ['line-1', 'line-2', 'line-3', 'line-4', 'line-5', 'line-6', 'line-7', 'line-8'];

/** A colour of six hexadecimal digits, partly transparent. */
export function faded(hex: string, share: number): string {
  return `${hex}${Math.round(share * 255).toString(16).padStart(2, '0')}`;
}
