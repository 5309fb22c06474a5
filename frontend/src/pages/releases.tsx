// Releases as columns, the newest first: each value beside that of the release before, and what the release did in all.

import { useMemo } from 'preact/hooks';
import { isDecided, loadOutcome, type Outcome, type Row } from '../comparing';
import { day, plural, quantity, ratio, short } from '../format';
import { primary, type Overview } from '../model';
import { link, useQuery, type Query, type Route } from '../router';
import { loadKnown, sideOf, type Side } from '../sides';
import { caseLink, Choice, CopyLink, Effect, Failed, Loading, named, plain, useLoaded } from '../ui';
import { meanOf } from './compare';

const FIRST = 5;
const FIRST_ROWS = 60;

interface Release {
  side: Side;
  name: string;
  time: string;
  revision: string;
  /** Beside the release before; none for the oldest. */
  outcome?: Outcome;
}

async function loadReleases(overview: Overview, words: string, count: number): Promise<{ shown: Release[]; total: number }> {
  const known = await loadKnown(overview);
  const tags = [...overview.tags].filter((tag) => tag.name.includes(words)).sort((a, b) => b.time.localeCompare(a.time) || b.name.localeCompare(a.name, 'en', { numeric: true }));
  const all = tags.map((tag): Release => ({ side: sideOf(`t:${tag.name}`, known), name: tag.name, time: tag.time, revision: tag.revision })).filter((one) => one.side.sessions.length);
  const shown = all.slice(0, count);
  const outcomes = await Promise.all(shown.map((one, at) => (all[at + 1] ? loadOutcome(all[at + 1].side, one.side, false) : undefined)));
  return { shown: shown.map((one, at) => ({ ...one, outcome: outcomes[at] })), total: all.length };
}

export function ReleasesPage({ route, overview }: { route: Route; overview: Overview }) {
  const [query, change] = useQuery(route);
  const count = Number(query.columns) || FIRST;
  const { value, error } = useLoaded(() => loadReleases(overview, query.tags ?? '', count), [overview, query.tags, count]);
  if (error) return <Failed error={error} />;
  return (
    <>
      <h1>Releases</h1>
      {!overview.tags.length ? (
        <p class="card calm">
          No tag is known. They come from the repository: <code>paceline dashboard build --repo DIR</code>, or <code>serve</code> in it.
        </p>
      ) : !value ? (
        <Loading />
      ) : (
        <Shown releases={value.shown} total={value.total} query={query} change={change} />
      )}
    </>
  );
}

const keyOf = (row: Row) => JSON.stringify([row.case, row.variant, row.version, row.metric, row.unit]);

function Shown({ releases, total, query, change }: { releases: Release[]; total: number; query: Record<string, string>; change: (changes: Query) => void }) {
  const rows = useMemo(() => rowsOf(releases), [releases]);
  const metrics = [...new Set(rows.flatMap((cells) => cells.flatMap((row) => row?.metric ?? [])))].sort();
  const main = useMemo(() => mainMetrics(rows), [rows]);
  const wanted = rows.filter((cells) => {
    const row = cells.find((one) => one) as Row;
    return (query.m ? row.metric === query.m || query.m === 'all' : main.get(row.case) === row.metric) && (!query.q || row.case.toLowerCase().includes(query.q.toLowerCase()));
  });
  const most = Number(query.rows) || FIRST_ROWS;
  return (
    <>
      <div class="bar">
        <label class="choice wide">
          <span>Cases</span>
          <input type="search" value={query.q ?? ''} onInput={(event) => change({ q: (event.target as HTMLInputElement).value })} />
        </label>
        <label class="choice">
          <span>Tags with</span>
          <input type="search" size={8} value={query.tags ?? ''} onInput={(event) => change({ tags: (event.target as HTMLInputElement).value })} />
        </label>
        {metrics.length > 1 && <Choice label="Metric" value={query.m ?? ''} options={[['', 'main of each case'], ['all', 'all'], ...metrics.map((name): [string, string] => [name, plain(name)])]} onChange={(m) => change({ m })} />}
        {total > releases.length && (
          <button type="button" onClick={() => change({ columns: releases.length + 5 })}>
            More releases: {releases.length} of {total}
          </button>
        )}
        <span class="grow" />
        <CopyLink />
      </div>
      {!releases.length && <p class="card calm">No session has measured a tag like that.</p>}
      {releases.length > 0 && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Releases">
          <table class="rows releases">
            <caption class="hidden">The value of each case at each release, and its change since the release before</caption>
            <thead>
              <tr>
                <th scope="col">Case</th>
                {releases.map((one) => (
                  <th key={one.name} scope="col" class="number">
                    <a href={link(['compare'], { b: `t:${one.name}` })} title={`${one.revision}: compare with the release before`}>
                      {plain(one.name)}
                    </a>
                    <span class="soft">
                      {day(one.time)} <code>{short(one.revision)}</code>
                    </span>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              <tr class="summary">
                <td class="main">
                  <b>{plural(wanted.length, 'case')}</b> <span class="soft">mean cost, range, changes since the release before</span>
                </td>
                {releases.map((one, at) => (
                  <td key={one.name} class="number" data-name={one.name}>
                    <Sum release={one} rows={wanted.flatMap((cells) => cells[at] ?? [])} />
                  </td>
                ))}
              </tr>
              {wanted.slice(0, most).map((cells) => (
                <Line key={keyOf(cells.find((one) => one) as Row)} cells={cells} releases={releases} />
              ))}
            </tbody>
          </table>
          {wanted.length > most && (
            <button type="button" class="more" onClick={() => change({ rows: most * 5 })}>
              Show more: first {most} of {wanted.length.toLocaleString('en')}
            </button>
          )}
        </div>
      )}
    </>
  );
}

/** For each series what each release did to it; those that changed most come first. */
function rowsOf(releases: Release[]): (Row | undefined)[][] {
  const found = new Map<string, (Row | undefined)[]>();
  releases.forEach(({ outcome }, at) => {
    for (const row of outcome?.rows ?? []) {
      const cells = found.get(keyOf(row)) ?? new Array<Row | undefined>(releases.length).fill(undefined);
      cells[at] = row;
      found.set(keyOf(row), cells);
    }
  });
  const size = (cells: (Row | undefined)[]) => Math.max(...cells.map((row) => (row && isDecided(row) && row.ratio > 0 ? Math.abs(Math.log(row.ratio)) : 0)));
  return [...found.values()].sort((a, b) => size(b) - size(a));
}

/** Of each case the metric that stands for it. */
function mainMetrics(rows: (Row | undefined)[][]): Map<string, string> {
  const found = new Map<string, { name: string; direction: string }[]>();
  for (const cells of rows) {
    const row = cells.find((one) => one) as Row;
    found.set(row.case, [...(found.get(row.case) ?? []), { name: row.metric, direction: row.direction }]);
  }
  return new Map([...found].map(([name, metrics]) => [name, primary(metrics)?.name ?? '']));
}

function Sum({ release, rows }: { release: Release; rows: Row[] }) {
  if (!release.outcome) return <span class="soft">the first one</span>;
  if (release.outcome.unlike) return <span class="soft">on other machines than the one before</span>;
  const mean = meanOf(rows);
  const [worse, better] = ['worse', 'better'].map((verdict) => rows.filter((row) => row.verdict === verdict).length);
  if (!mean) return <span class="soft">nothing in common with the one before</span>;
  return (
    <>
      <strong>{ratio(mean.mean)}</strong>
      <span class="soft">
        {ratio(mean.low)} to {ratio(mean.high)}
      </span>
      <span>
        {worse > 0 && <span class="effect worse">▲ {worse}</span>} {better > 0 && <span class="effect better">▼ {better}</span>} <span class="soft">of {rows.length.toLocaleString('en')}</span>
      </span>
    </>
  );
}

function Line({ cells, releases }: { cells: (Row | undefined)[]; releases: Release[] }) {
  const row = cells.find((one) => one) as Row;
  return (
    <tr>
      <td class="main">
        <a href={caseLink(row.case, row.metric)}>{named(row.case)}</a> <span class="soft">{plain([row.metric, row.variant].filter(Boolean).join(' · '))}</span>
      </td>
      {releases.map((one, at) => {
        const [own, next] = [cells[at], at > 0 ? cells[at - 1] : undefined];
        const value = own ? own.after : next?.before;
        return (
          <td key={one.name} class={`number ${value === undefined ? 'none' : ''}`} data-name={one.name}>
            {value === undefined ? (
              <span class="soft">–</span>
            ) : (
              <>
                {quantity(value, row.unit)} {own && isDecided(own) && <Effect verdict={own.verdict} effect={own.ratio - 1} />}
              </>
            )}
          </td>
        );
      })}
    </tr>
  );
}
