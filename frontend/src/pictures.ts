// Drawings of what a page shows as cells or bars, for those who take a picture along.

import { escaped } from './export';
import { plain, quantity, share } from './format';
import { colour, LINES } from './theme';

const FONT = '13px sans-serif';
const [ROW, GAP, HEAD] = [26, 12, 54];
const WIDEST_NAME = 420;

let pen: CanvasRenderingContext2D | null = null;

function widthOf(text: string): number {
  pen ??= document.createElement('canvas').getContext('2d');
  if (!pen) return text.length * 7;
  pen.font = FONT;
  return pen.measureText(text).width;
}

const widest = (texts: string[]) => Math.max(0, ...texts.map(widthOf));

/** As much of a name as there is room for. */
function fitted(text: string, room: number): string {
  if (widthOf(text) <= room) return text;
  let kept = text;
  while (kept && widthOf(`${kept}…`) > room) kept = kept.slice(0, -1);
  return `${kept}…`;
}

function word(text: string, x: number, y: number, more = ''): string {
  return `<text x="${x}" y="${y}" ${more}>${escaped(text)}</text>`;
}

function sheet(title: string, wide: number, tall: number, parts: string[]): string {
  const paper = `<rect width="${wide}" height="${tall}" fill="${colour('card')}"/>`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${wide} ${tall}" font-family="sans-serif" font-size="13" fill="${colour('ink')}">${paper}${word(title, GAP, 22, 'font-weight="600"')}${parts.join('')}</svg>`;
}

export interface HeatCell {
  text: string;
  /** `worse-3` and so on, as the page's style sheet has them. */
  tone: string;
}

/** How much of the tone's colour a cell of each strength has; the style sheet says the same. */
const SHARES = [0, 0.14, 0.24, 0.34, 0.44];

function fillOf(tone: string): string {
  const [name, strength] = tone.split('-');
  const [tint, paper] = [colour(name), colour('card')];
  const mixed = [1, 3, 5].map((at) => {
    const [a, b] = [tint, paper].map((hex) => parseInt(hex.slice(at, at + 2), 16));
    return Math.round(b + (a - b) * SHARES[Number(strength)]);
  });
  return `#${mixed.map((value) => value.toString(16).padStart(2, '0')).join('')}`;
}

/** A heat map: a row for each name, a column for each head. */
export function heatOf(title: string, names: string[], heads: string[], cell: (name: string, head: string) => HeatCell | undefined): string {
  const left = Math.min(WIDEST_NAME, widest(names.map(plain))) + 2 * GAP;
  const columns = heads.map((head) => Math.max(widthOf(plain(head)), widest(names.map((name) => cell(name, head)?.text ?? ''))) + 2 * GAP);
  const starts = columns.map((_, at) => left + columns.slice(0, at).reduce((sum, width) => sum + width, 0));
  const wide = Math.max(widthOf(title) * 1.1 + 2 * GAP, left + columns.reduce((sum, width) => sum + width, 0));
  const parts = heads.map((head, at) => word(plain(head), starts[at] + columns[at] - GAP, HEAD - 8, `text-anchor="end" font-size="12" fill="${colour('ink-soft')}"`));
  names.forEach((name, row) => {
    const top = HEAD + row * ROW;
    parts.push(word(fitted(plain(name), WIDEST_NAME), GAP, top + 18));
    heads.forEach((head, at) => {
      const found = cell(name, head);
      if (!found) return;
      parts.push(`<rect x="${starts[at] + 1}" y="${top + 1}" width="${columns[at] - 2}" height="${ROW - 2}" fill="${fillOf(found.tone)}"/>`);
      parts.push(word(found.text, starts[at] + columns[at] - GAP, top + 18, 'text-anchor="end"'));
    });
  });
  return sheet(title, Math.ceil(wide), HEAD + names.length * ROW + GAP, parts);
}

const LONGEST_BAR = 460;

/** Times as bars, with their shares of the whole. */
export function barsOf(title: string, rows: [name: string, seconds: number][]): string {
  const total = rows.reduce((sum, [, seconds]) => sum + seconds, 0) || 1;
  const most = Math.max(...rows.map(([, seconds]) => seconds)) || 1;
  const left = Math.min(WIDEST_NAME, widest(rows.map(([name]) => plain(name)))) + 2 * GAP;
  const parts = rows.map(([name, seconds], row) => {
    const top = HEAD - 14 + row * ROW;
    const long = (seconds / most) * LONGEST_BAR;
    const told = `${quantity(seconds, 's')}, ${share(seconds / total, 2)}`;
    return `${word(fitted(plain(name), WIDEST_NAME), GAP, top + 18)}<rect x="${left}" y="${top + 5}" width="${long}" height="${ROW - 10}" fill="${colour(LINES[row % LINES.length])}"/>${word(told, left + long + 8, top + 18)}`;
  });
  return sheet(title, Math.ceil(left + LONGEST_BAR + 140), HEAD + rows.length * ROW, parts);
}
