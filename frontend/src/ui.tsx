// Small parts that all pages use.

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { drawingOf, saveDrawing, savePicture } from './export';
import { percent, plain, short, words } from './format';
import type { Cause } from './model';
import { choose, chosen, link } from './router';

export { plain };

const SIGNS: Record<string, string> = {
  passed: '✓',
  failed: '✕',
  requirement_failed: '✕',
  timeout: '◷',
  launch_error: '✕',
  infra_error: '⚠',
  skipped: '–',
  interrupted: '◼',
};

export function Status({ status, reason }: { status: string; reason?: string }) {
  const tone = status === 'passed' ? 'good' : status === 'skipped' || status === 'interrupted' ? 'mild' : 'bad';
  return (
    <span class={`status ${tone}`} title={reason || undefined}>
      <span aria-hidden="true">{SIGNS[status] ?? '?'}</span> {words(status)}
    </span>
  );
}

const ARROWS: Record<string, string> = { worse: '▲', better: '▼', same: '=', inconclusive: '?', question: '?' };

/** The sign says more or less, the colour and the word say better or worse. */
export function Effect({ verdict, effect }: { verdict: string; effect?: number | null }) {
  const sign = effect === undefined || effect === null || effect === 0 ? ARROWS[verdict] : effect > 0 ? '▲' : '▼';
  return (
    <span class={`effect ${verdict}`}>
      <span aria-hidden="true">{sign}</span> {percent(effect)} <span class="word">{verdict}</span>
    </span>
  );
}

/** How the last runs ended, a small bar each. */
export function Strip({ letters }: { letters: string }) {
  const bad = [...letters].filter((letter) => letter !== 'p' && letter !== 's').length;
  return (
    <svg class="strip" width={letters.length * 5} height={16} role="img" aria-label={`${bad} of the last ${letters.length} runs did not pass`}>
      {[...letters].map((letter, at) => {
        const good = letter === 'p' || letter === 's';
        return <rect key={at} class={good ? 'good' : 'bad'} x={at * 5} y={good ? 6 : 0} width={4} height={good ? 10 : 16} rx={1} />;
      })}
    </svg>
  );
}

export const caseLink = (key: string, metric?: string, more: Record<string, string> = {}) => link(['case', key], { m: metric, ...more });
export const sessionLink = (id: string, name?: string) => link(['session', id], { case: name });
/** A case of a session, opened at what it wrote. */
export const logLink = (id: string, name: string, variant: string) => link(['session', id], { case: name, v: variant, at: 'log' });

export const incidentLink = (id: string, finding?: string) => link(['incident', id], { f: finding });

let forge = '';

/** Where the repository is looked at in a browser; an address of any other kind is not used. */
export function setForge(address: string): void {
  forge = /^https:\/\/[\w.-]+\/[\w./~-]+$/.test(address) ? address : '';
}

/** A part of the forge, if there is one: a commit, or what lies between two. */
function Forge({ path, title, children }: { path: string; title?: string; children: ComponentChildren }) {
  const shown = <code title={title}>{children}</code>;
  return forge ? (
    <a class="revision" href={`${forge}/${path}`} target="_blank" rel="noopener noreferrer">
      {shown}
    </a>
  ) : (
    <span class="revision">{shown}</span>
  );
}

export function Revision({ revision }: { revision?: string }) {
  if (!revision) return null;
  return (
    <Forge path={`commit/${encodeURIComponent(revision)}`} title={revision}>
      {short(revision)}
    </Forge>
  );
}

/** What may be the cause, or is; a commit leads to the forge. */
export function CauseText({ cause, stage }: { cause?: Cause; stage: string }) {
  if (!cause) return null;
  const more = cause.more ? <span class="soft"> +{cause.more.toLocaleString('en')} more</span> : null;
  const isFound = stage === 'bisected' || stage === 'culprit';
  return (
    <span class={isFound ? 'cause culprit' : 'cause'}>
      {cause.kind === 'commit' && cause.revision ? (
        <>
          <Revision revision={cause.revision} /> {plain(cause.subject ?? '')}
        </>
      ) : cause.kind === 'commits' && cause.from && cause.to ? (
        <>
          {cause.count !== undefined && `${cause.count.toLocaleString('en')} `}commits{' '}
          <Forge path={`compare/${encodeURIComponent(cause.from)}...${encodeURIComponent(cause.to)}`}>
            {short(cause.from)}…{short(cause.to)}
          </Forge>
        </>
      ) : (
        plain(cause.text)
      )}
      {more}
    </span>
  );
}

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page on disk may not be allowed to; the old way works there.
    const box = document.createElement('textarea');
    box.value = text;
    (document.querySelector('dialog[open]') ?? document.body).append(box);
    box.select();
    const done = document.execCommand('copy');
    box.remove();
    return done;
  }
}

export function CopyButton({ text, label }: { text: () => string; label: string }) {
  const [told, setTold] = useState('');
  const take = async () => {
    setTold((await copy(text())) ? 'Copied' : 'Could not copy');
    setTimeout(() => setTold(''), 2000);
  };
  return (
    <button type="button" class="copy" onClick={() => void take()}>
      <span aria-live="polite">{told || label}</span>
    </button>
  );
}

/** All that is chosen is in the address, so the address is the view. */
export const CopyLink = () => <CopyButton text={() => location.href} label="Copy link to this view" />;

/** What became of a finding, and how far it was followed up. */
export function Standing({ finding }: { finding: { state?: string; stage?: string; ended?: string } }) {
  const state = finding.state ?? 'new';
  const stage = finding.stage ?? 'suspected';
  return (
    <span class="standing">
      {finding.ended && state === 'new' ? <span class="state">series ended</span> : !(state === 'new' && stage === 'not_reproduced') && <span class={`state ${state}`}>{words(state)}</span>} {stage !== 'suspected' && <span class="state stage">{words(stage)}</span>}
    </span>
  );
}

export function Loading() {
  return (
    <p class="loading" role="status">
      Loading…
    </p>
  );
}

export function Failed({ error }: { error: unknown }) {
  return (
    <div class="card notice" role="alert">
      <h2>This page has no data</h2>
      <p>{error instanceof Error ? error.message : String(error)}. It may have been removed from the history, or belong to another site.</p>
      <p>
        <a href="#/">Back to the first page</a>
      </p>
    </div>
  );
}

/** What a promise brings; `again` changes when it should be asked anew. */
export function useLoaded<T>(ask: () => Promise<T>, again: unknown[]): { value?: T; error?: unknown } {
  const [state, setState] = useState<{ value?: T; error?: unknown }>({});
  useEffect(() => {
    let current = true;
    ask().then(
      (value) => current && setState({ value }),
      (error: unknown) => current && setState({ error }),
    );
    return () => {
      current = false;
    };
  }, again);
  return state;
}

export interface ColumnOf<R> {
  name: string;
  show: (row: R) => ComponentChildren;
  sort?: (row: R) => number | string;
  numeric?: boolean;
  /** On a narrow screen, where a row is a card, it stands at the top. */
  lead?: boolean;
}

/** By which the address knows a column: its head, and which of several that have the same. */
function columnId<R>(columns: ColumnOf<R>[], at: number): string {
  const before = columns.slice(0, at).filter((column) => column.name === columns[at].name).length;
  return before ? `${columns[at].name}.${before + 1}` : columns[at].name;
}

interface Order {
  column: number;
  down: boolean;
}

function orderOf<R>(columns: ColumnOf<R>[], text: string | undefined): Order | null {
  const cut = text?.lastIndexOf('.') ?? -1;
  if (text === undefined || cut < 0) return null;
  const column = columns.findIndex((one, at) => one.sort && columnId(columns, at) === text.slice(0, cut));
  return column < 0 ? null : { column, down: text.slice(cut + 1) === 'down' };
}

/** A table that sorts by its heads and shows more rows when asked; `name` is what the address calls it. */
export function Table<R>(props: {
  name?: string;
  rows: R[];
  columns: ColumnOf<R>[];
  caption: string;
  id: (row: R, at: number) => string | number;
  first?: number;
  detail?: (row: R) => ComponentChildren;
  chosen?: (row: R) => boolean;
}) {
  const [sortName, rowsName] = [`${props.name ?? ''}sort`, `${props.name ?? ''}rows`];
  const order = orderOf(props.columns, chosen(sortName));
  const shown = Math.max(Number(chosen(rowsName)) || 0, props.first ?? 100);
  const sortBy = (column: number, down: boolean) => choose({ [sortName]: `${columnId(props.columns, column)}.${down ? 'down' : 'up'}` });
  const rows = order ? sorted(props.rows, props.columns[order.column], order.down) : props.rows;
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label={props.caption}>
      <table class="rows">
        <caption class="hidden">{props.caption}</caption>
        <thead>
          <tr>
            {props.columns.map((column, at) => {
              const down = order?.column === at ? order.down : undefined;
              if (!column.name) return <td key={at} />;
              return (
                <th key={at} class={column.numeric ? 'number' : ''} scope="col" aria-sort={down === undefined ? undefined : down ? 'descending' : 'ascending'}>
                  {column.sort ? (
                    <button type="button" class="head" onClick={() => sortBy(at, down === undefined ? Boolean(column.numeric) : !down)}>
                      {column.name}
                      <span aria-hidden="true">{down === undefined ? '' : down ? ' ↓' : ' ↑'}</span>
                    </button>
                  ) : (
                    column.name
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown).map((row, at) => (
            <Row key={props.id(row, at)} row={row} columns={props.columns} chosen={props.chosen?.(row)} detail={props.detail} />
          ))}
        </tbody>
      </table>
      {rows.length > shown && (
        <button type="button" class="more" onClick={() => choose({ [rowsName]: shown * 5 })}>
          Show more of {rows.length.toLocaleString('en')} rows
        </button>
      )}
    </div>
  );
}

function Row<R>({ row, columns, chosen, detail }: { row: R; columns: ColumnOf<R>[]; chosen?: boolean; detail?: (row: R) => ComponentChildren }) {
  const main = columns.findIndex((column) => column.name && !column.lead);
  return (
    <>
      <tr class={chosen ? 'chosen' : undefined}>
        {columns.map((column, at) => (
          <td key={at} data-name={column.name} class={`${column.numeric ? 'number' : ''} ${column.lead ? 'lead' : at === main ? 'main' : ''}`}>
            {column.show(row)}
          </td>
        ))}
      </tr>
      {chosen && detail && (
        <tr class="detail">
          <td colSpan={columns.length}>{detail(row)}</td>
        </tr>
      )}
    </>
  );
}

function sorted<R>(rows: R[], column: ColumnOf<R>, down: boolean): R[] {
  const key = column.sort as (row: R) => number | string;
  const worth = (value: number | string) => (typeof value === 'number' && Number.isNaN(value) ? -Infinity : value);
  return [...rows].sort((a, b) => {
    const [left, right] = [worth(key(a)), worth(key(b))];
    return (left < right ? -1 : left > right ? 1 : 0) * (down ? -1 : 1);
  });
}

export function Choice(props: { label: string; value: string; options: (string | [value: string, text: string])[]; onChange: (value: string) => void }) {
  return (
    <label class="choice">
      <span>{props.label}</span>
      <select aria-label={props.label} value={props.value} onChange={(event) => props.onChange((event.target as HTMLSelectElement).value)}>
        {props.options.map((option) => {
          const [value, text] = typeof option === 'string' ? [option, option] : option;
          return (
            <option key={value} value={value}>
              {text}
            </option>
          );
        })}
      </select>
    </label>
  );
}

/** Takes a drawing along, as one that can be enlarged or as dots. */
export function PictureDownload({ name, draw }: { name: string; draw: () => string | undefined }) {
  const take = (save: (name: string, drawing: string) => void) => {
    const drawing = draw();
    if (drawing) save(name, drawing);
  };
  return (
    <span class="downloads">
      <span class="soft">Download</span>
      <button type="button" aria-label={`Download ${name} as PNG`} onClick={() => take(savePicture)}>
        PNG
      </button>
      <button type="button" aria-label={`Download ${name} as SVG`} onClick={() => take(saveDrawing)}>
        SVG
      </button>
    </span>
  );
}

/** The same of the first drawing in a box. */
export function DrawingDownload({ name, box }: { name: string; box: { current: HTMLElement | null } }) {
  return <PictureDownload name={name} draw={() => drawingOf(box.current?.querySelector('svg'))} />;
}

/** A part that opens, and that the address knows of: `name` is what it is called there. Some are open to begin with. */
export function Fold(props: { name: string; title: ComponentChildren; class?: string; start?: boolean; children: ComponentChildren }) {
  const start = props.start ?? false;
  const open = chosen(props.name) === undefined ? start : chosen(props.name) === '1';
  const turn = (now: boolean) => now !== open && choose({ [props.name]: now === start ? undefined : Number(now) });
  return (
    <details class={props.class} open={open} onToggle={(event) => turn((event.target as HTMLDetailsElement).open)}>
      <summary>{props.title}</summary>
      {open && props.children}
    </details>
  );
}

export function Toggle(props: { label: string; on: boolean; onChange: (on: boolean) => void; title?: string }) {
  return (
    <button type="button" class="toggle" aria-pressed={props.on} title={props.title} onClick={() => props.onChange(!props.on)}>
      {props.label}
    </button>
  );
}

/** A name that breaks between its parts where it has to break. */
export function named(text: string): ComponentChildren {
  return plain(text)
    .split(/(?<=[[,/:.])/)
    .flatMap((part, at) => (at ? [<wbr key={at} />, part] : [part]));
}
