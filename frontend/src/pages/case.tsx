// One case: every metric over commits, how noisy it is, what changed, two points compared, the distribution, the source.

import { useMemo } from 'preact/hooks';
import { CaseChart, pinnedOf, PointTable, viewOf, type Loaded } from '../case_chart';
import { around, labelOfFinding, makePlot, paramsOf, type CasePlot } from '../case_plot';
import { Chart } from '../chart';
import { load } from '../data';
import { Distribution } from '../distribution';
import { moment, percent, plural, quantity, share } from '../format';
import { loadCase, loadEnvironments, loadSessions, ordered, primary, type CaseData, type Column, type Finding, type Overview, type SearchIndex } from '../model';
import { PointCompare, Source } from '../point_compare';
import { useQuery, type Query, type Route } from '../router';
import { LOUD, noiseOf } from '../stats';
import { caseLink, Choice, Effect, Failed, Fold, incidentLink, Loading, named, plain, Revision, Standing, Toggle, useLoaded } from '../ui';

const MOST_SIBLINGS = 16;

interface Siblings {
  shown: CaseData[];
  total: number;
}

interface All extends Loaded {
  siblings: Siblings;
}

async function loadAll(name: string, all: boolean): Promise<All> {
  const [data, environments] = await Promise.all([loadCase(name), loadEnvironments()]);
  const siblings = all ? await loadSiblings(data) : { shown: [], total: 0 };
  const wanted = new Set<number>();
  for (const one of [data, ...siblings.shown]) for (const number of one.session) wanted.add(number);
  return { data, siblings, environments, sessions: await loadSessions(wanted, 'heads') };
}

/** The other cases of the entry: those that ran last, if there are too many. */
async function loadSiblings(data: CaseData): Promise<Siblings> {
  const index = await load<SearchIndex>('search');
  const stem = `${data.key.split('[')[0]}[`;
  const found = index.case.flatMap((name, at) => (name.startsWith(stem) ? [{ name, last: index.last[at] }] : []));
  const newest = [...found].sort((a, b) => Number(b.name === data.key) - Number(a.name === data.key) || b.last.slice(0, 7).localeCompare(a.last.slice(0, 7))).slice(0, MOST_SIBLINGS);
  const names = found.filter((one) => newest.includes(one)).map((one) => one.name);
  return { shown: await Promise.all(names.map(loadCase)), total: found.length };
}

export function CasePage({ name, route, version, overview }: { name: string; route: Route; version: string; overview: Overview }) {
  const [query, change] = useQuery(route);
  const all = query.all === '1';
  const { value, error } = useLoaded(() => loadAll(name, all), [name, all, version]);
  if (error) return <Failed error={error} />;
  if (!value) return <Loading />;
  return <Case key={name} loaded={value} query={query} change={change} overview={overview} />;
}

interface CaseProps {
  loaded: All;
  query: Record<string, string>;
  change: (changes: Query) => void;
  overview: Overview;
}

function Case({ loaded, query, change, overview }: CaseProps) {
  const { data } = loaded;
  const metric = data.metrics.find((one) => one.name === query.m && (query.u === undefined || one.unit === query.u)) ?? data.metrics.find((one) => one.name === query.m) ?? primary(data.metrics);
  const names = useMemo(() => sortMetrics(data), [data]);
  return (
    <>
      <h1 class="case-title">{named(data.key)}</h1>
      {metric ? (
        <>
          <div class="bar">
            {names.length > 1 && <Choice label="Metric" value={metric.name} options={names.map((one): [string, string] => [one.name, `${plain(one.name)}${one.direction ? (one.direction === 'lower' ? ' ↓' : ' ↑') : ''}`])} onChange={(m) => change({ m, f: undefined })} />}
            <Toggle label="Time axis" on={query.x === 'time'} onChange={(on) => change({ x: on ? 'time' : undefined })} title="Points by their dates, instead of one commit beside the other" />
            <Toggle label="Log" on={query.log === '1'} onChange={(on) => change({ log: on })} />
            <Toggle label="From zero" on={query.zero === '1'} onChange={(on) => change({ zero: on })} />
            {metric.starts && <Toggle label="Samples" on={query.band !== '0'} onChange={(on) => change({ band: on ? undefined : 0 })} title="The range of each record's samples as a band" />}
            {data.key.includes('[') && <Toggle label="All parameters" on={query.all === '1'} onChange={(on) => change({ all: on })} />}
          </div>
          <MetricView key={metric.name + metric.unit} metric={metric} loaded={loaded} query={query} change={change} overview={overview} />
        </>
      ) : (
        <>
          <Facts data={data} />
          <p class="calm">No run of this case has left a number.</p>
        </>
      )}
      <Source data={data} />
    </>
  );
}

/** What can be judged first, and of that what the benchmark measures itself. */
function sortMetrics(data: CaseData): Column[] {
  const first = primary(data.metrics);
  return [...data.metrics].sort((a, b) => Number(b === first) - Number(a === first) || Number(Boolean(b.direction)) - Number(Boolean(a.direction)) || a.name.localeCompare(b.name));
}

function Facts({ data, plot, metric }: { data: CaseData; plot?: CasePlot; metric?: Column }) {
  const params = Object.entries(data.params);
  const failed = data.status.filter((status) => status !== 'passed' && status !== 'skipped').length;
  const noise = plot && metric ? noiseOfPlot(plot) : null;
  const unrest = plot && metric ? unrestOf(data, metric, plot) : 0;
  return (
    <p class="facts">
      {params.map(([name, value]) => (
        <span key={name} class="tag">
          {plain(name)}={plain(String(value))}
        </span>
      ))}
      {noise && (
        <span class={`noise ${noise.spread > LOUD ? 'loud' : ''}`} title={`Of the last ${noise.count} results${noise.label ? ` (${noise.label})` : ''}, since the last change: their spread, and the smallest change that three new results show in four of five cases.`}>
          {noise.spread > LOUD ? '⚠ noisy' : 'noise'} ±{share(noise.spread, 2)} · sees changes from {share(noise.detectable, 2)}
          {unrest > 0 && ` · restless: ±${share(unrest, 2)} within a week`}
        </span>
      )}
      {plot && !noise && metric?.direction && <span class="noise">too few runs to judge</span>}
      <span class="soft">
        {plural(data.n, 'record')}
        {failed ? `, ${failed.toLocaleString('en')} not passed` : ''} · last {moment(data.n ? Math.max(...data.time.subarray(Math.max(0, data.n - 1000))) : undefined)}
      </span>
    </p>
  );
}

/** By how much the level of the line that is looked at moves by itself within a week. */
function unrestOf(data: CaseData, metric: Column, plot: CasePlot): number {
  const label = plot.lines.find((line) => !line.dim)?.label;
  const series = data.names.find((one) => one.name === label) ?? (data.names.length === 1 ? data.names[0] : undefined);
  const found = data.restless.find((one) => one.metric === metric.name && one.unit === metric.unit && one.variant === series?.variant && one.version === series.version && one.class === series.class);
  return found?.unrest ?? 0;
}

/** How noisy the line is that is looked at, else the one that has the newest point. */
function noiseOfPlot(plot: CasePlot): (ReturnType<typeof noiseOf> & { label: string; count: number }) | null {
  const line = plot.lines.find((one) => !one.dim);
  if (!line) return null;
  const since = Math.max(-Infinity, ...plot.changes.filter((one) => one.to <= (plot.x[line.places[line.places.length - 1]] ?? 0)).map((one) => one.to));
  const values = Float64Array.from([...line.places].filter((at) => plot.x[at] >= since).slice(-30), (at) => plot.y[at]);
  const found = noiseOf(values);
  return found && { ...found, label: plot.lines.length > 1 ? line.label : '', count: values.length };
}

function MetricView({ metric, loaded, query, change, overview }: CaseProps & { metric: Column }) {
  const { data, siblings, sessions, environments } = loaded;
  const finding = data.findings.find((one) => one.id === query.f);
  const only = query.only ?? (finding ? labelOfFinding(finding, data, metric.name) : undefined);
  const shown = { sessions, environments, tags: overview.tags, time: query.x === 'time', band: query.band !== '0', finding: query.f };
  const plot = useMemo(() => {
    const made = (name?: string) => makePlot([{ data, column: metric, places: ordered(data, sessions) }], { ...shown, only: name });
    const first = made(only);
    return only && !first.lines.some((line) => line.label === only) ? made() : first;
  }, [data, metric, shown.time, shown.band, sessions, only, query.f]);
  const chosen = plot.changes.find((one) => one.chosen);
  const start = chosen && only ? around(plot, chosen, only) : {};
  const pinned = useMemo(() => pinnedOf(plot, query), [plot, query.a, query.b]);
  const view = viewOf(plot, query, start);
  const findings = data.findings.filter((one) => one.metric === metric.name && (!query.only || labelOfFinding(one, data, metric.name) === query.only));
  return (
    <>
      <Facts data={data} plot={plot} metric={metric} />
      {siblings.shown.length > 1 && query.all === '1' ? (
        <Multiples siblings={siblings} metric={metric} shown={shown} now={data.key} />
      ) : (
        <CaseChart plot={plot} metric={metric} loaded={loaded} query={{ ...query, only: only ?? '' }} change={change} start={start} isolates />
      )}
      {pinned.length > 0 && <PointCompare plot={plot} metric={metric} loaded={loaded} pinned={pinned} onClear={() => change({ a: undefined, b: undefined })} />}
      {findings.length > 0 && <Changes findings={findings} chosen={query.f} />}
      <Fold name="spread" class="card" title="Distribution">
        <Distribution plot={plot} view={view} metric={metric} name={`${data.key} ${metric.name}`} />
      </Fold>
      <Fold name="table" class="card" title="Table of the points shown">
        <PointTable plot={plot} metric={metric} loaded={loaded} view={view} />
      </Fold>
    </>
  );
}

const MOST_CHANGES = 6;

function Changes({ findings, chosen }: { findings: Finding[]; chosen?: string }) {
  const isOpen = (one: Finding) => Number((one.state ?? 'new') === 'new' && !one.ended);
  const sorted = [...findings].sort((a, b) => Number(b.id === chosen) - Number(a.id === chosen) || isOpen(b) - isOpen(a));
  const row = (one: Finding) => (
    <li key={one.id} class={`finding ${one.verdict} ${chosen === one.id ? 'chosen' : ''}`}>
      <Effect verdict={one.verdict} effect={one.effect} />
      <span class="soft interval">{one.low !== undefined && one.high !== undefined && `${percent(one.low)} to ${percent(one.high)}`}</span>
      <span>
        {one.series_name && <b>{plain(one.series_name)} </b>}
        <span class="soft">between</span> <Revision revision={one.last_good?.revision} /> <span class="soft">and</span> <Revision revision={one.first_bad?.revision} /> <span class="soft">{moment(one.first_bad?.committed || one.first_bad?.time)}</span>
      </span>
      <Standing finding={one} />
      <a href={incidentLink(one.incident || one.id, one.id)}>Incident</a>
    </li>
  );
  return (
    <section aria-label="Changes found">
      <h2>
        Changes <span class="soft">{findings.length.toLocaleString('en')}</span>
      </h2>
      <ul class="card findings">{sorted.slice(0, MOST_CHANGES).map(row)}</ul>
      {sorted.length > MOST_CHANGES && (
        <Fold name="changes" class="card" title={plural(sorted.length - MOST_CHANGES, 'more change')}>
          <ul class="findings">{sorted.slice(MOST_CHANGES).map(row)}</ul>
        </Fold>
      )}
    </section>
  );
}

type Shown = Omit<Parameters<typeof makePlot>[1], 'only'>;

/** A small chart for each set of parameters, of the line that has the newest point. */
function Multiples({ siblings, metric, shown, now }: { siblings: Siblings; metric: Column; shown: Shown; now: string }) {
  const plots = useMemo(
    () =>
      siblings.shown.flatMap((data) => {
        const column = data.metrics.find((one) => one.name === metric.name);
        if (!column) return [];
        const drawn = [{ data, column, places: ordered(data, shown.sessions) }];
        const newest = makePlot(drawn, shown).lines[0]?.label;
        const plot = makePlot(drawn, { ...shown, only: newest });
        const places = plot.lines.find((line) => line.label === newest)?.places ?? new Int32Array(0);
        const view = places.length > 1 ? { from: plot.x[places[0]] - 0.5, to: plot.x[places[places.length - 1]] + 0.5 } : {};
        return [{ data, plot, view }];
      }),
    [siblings, metric.name, shown.time, shown.band],
  );
  return (
    <section class="card multiples" aria-label="All parameters">
      <p class="soft">
        {plain(metric.name)} of {siblings.total > plots.length ? `the newest ${plots.length} of ${siblings.total}` : `all ${plots.length}`} sets of parameters{plots.some((one) => one.plot.lines.length > 1) ? ', each in the series that it ran in last' : ''}.
      </p>
      <div class="grid-of-charts">
        {plots.map(({ data, plot, view }) => {
          const line = plot.lines.find((one) => !one.dim);
          const last = line?.places[line.places.length - 1];
          return (
            <figure key={data.key} class={data.key === now ? 'now' : ''}>
              <figcaption>
                <a href={caseLink(data.key, metric.name)}>{plain(paramsOf(data.key))}</a> <strong>{last === undefined ? '–' : quantity(plot.y[last], plot.unit)}</strong>
              </figcaption>
              <Chart plot={{ ...plot, tags: [], levels: [] }} view={view} title={`${data.key} ${metric.name}`} height={120} />
            </figure>
          );
        })}
      </div>
    </section>
  );
}
