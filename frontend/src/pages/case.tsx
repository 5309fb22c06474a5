// One case: every metric over time, what changed, two points compared, the distribution, the source, a table.

import { useMemo, useRef, useState } from 'preact/hooks';
import { makePlot, type CasePlot, type Drawn } from '../case_plot';
import { Chart, type View } from '../chart';
import { load } from '../data';
import { Distribution } from '../distribution';
import { saveCsv, saveJson, savePng, saveSvg } from '../export';
import { moment, plural, quantity, short } from '../format';
import { loadCase, loadEnvironments, loadSessions, ordered, primary, samplesOf, type CaseData, type Column, type EnvironmentHead, type SearchIndex, type Session } from '../model';
import { PointCompare, Source } from '../point_compare';
import { useQuery, type Route } from '../router';
import { Choice, Effect, Failed, Fold, Loading, logLink, plain, Revision, Status, Table, Toggle, useLoaded } from '../ui';
import { Causes, Standing } from './overview';

const MOST_SIBLINGS = 12;

interface Loaded {
  data: CaseData;
  siblings: CaseData[];
  sessions: Map<number, Session>;
  environments: Map<number, EnvironmentHead>;
}

async function loadAll(name: string, all: boolean): Promise<Loaded> {
  const [data, environments] = await Promise.all([loadCase(name), loadEnvironments()]);
  const siblings = all ? await loadSiblings(data) : [];
  const wanted = new Set<number>();
  for (const one of [data, ...siblings]) for (const number of one.session) wanted.add(number);
  return { data, siblings, environments, sessions: await loadSessions(wanted, 'heads') };
}

async function loadSiblings(data: CaseData): Promise<CaseData[]> {
  const index = await load<SearchIndex>('search');
  const stem = `${data.key.split('[')[0]}[`;
  const names = index.case.filter((name) => name !== data.key && name.startsWith(stem)).slice(0, MOST_SIBLINGS - 1);
  return Promise.all(names.map(loadCase));
}

export function CasePage({ name, route, version }: { name: string; route: Route; version: string }) {
  const [query, change] = useQuery(route);
  const all = query.all === '1';
  const { value, error } = useLoaded(() => loadAll(name, all), [name, all, version]);
  if (error) return <Failed error={error} />;
  if (!value) return <Loading />;
  return <Case key={name} loaded={value} query={query} change={change} />;
}

type Query = Record<string, string>;

function Case({ loaded, query, change }: { loaded: Loaded; query: Query; change: (changes: Record<string, string | number | boolean | undefined>) => void }) {
  const { data } = loaded;
  const metric = data.metrics.find((one) => one.name === query.m && (query.u === undefined || one.unit === query.u)) ?? data.metrics.find((one) => one.name === query.m) ?? primary(data.metrics);
  const names = useMemo(() => sortMetrics(data), [data]);
  return (
    <>
      <h1 class="case-title">{plain(data.key)}</h1>
      <Facts data={data} />
      {metric ? (
        <>
          <div class="bar">
            <Choice label="Metric" value={metric.name} options={names.map((one): [string, string] => [one.name, `${plain(one.name)}${one.direction ? (one.direction === 'lower' ? ' ↓' : ' ↑') : ''}`])} onChange={(m) => change({ m, f: undefined })} />
            <Toggle label="Time axis" on={query.x === 'time'} onChange={(on) => change({ x: on ? 'time' : undefined, from: undefined, to: undefined })} title="Points by when they ran, instead of one beside the other in commit order" />
            <Toggle label="Log" on={query.log === '1'} onChange={(on) => change({ log: on })} />
            <Toggle label="From zero" on={query.zero === '1'} onChange={(on) => change({ zero: on })} />
            <Toggle label="Samples" on={query.band !== '0'} onChange={(on) => change({ band: on ? undefined : 0 })} title="The range of each record's samples as a band" />
            <Toggle label="All parameters" on={query.all === '1'} onChange={(on) => change({ all: on })} />
          </div>
          <MetricView key={metric.name + metric.unit} metric={metric} loaded={loaded} query={query} change={change} />
        </>
      ) : (
        <p class="calm">No run of this case has left a number.</p>
      )}
      <Source data={data} />
    </>
  );
}

function sortMetrics(data: CaseData): Column[] {
  return [...data.metrics].sort((a, b) => Number(Boolean(b.direction)) - Number(Boolean(a.direction)) || a.name.localeCompare(b.name));
}

function Facts({ data }: { data: CaseData }) {
  const params = Object.entries(data.params);
  const failed = data.status.filter((status) => status !== 'passed' && status !== 'skipped').length;
  return (
    <p class="facts">
      {params.map(([name, value]) => (
        <span key={name} class="tag">
          {plain(name)}={plain(String(value))}
        </span>
      ))}
      <span class="soft">
        {plural(data.n, 'record')}
        {failed ? `, ${failed} not passed` : ''} · last {moment(data.n ? Math.max(...tail(data.time)) : undefined)}
      </span>
    </p>
  );
}

const tail = (times: Float64Array) => times.subarray(Math.max(0, times.length - 1000));

interface MetricProps {
  metric: Column;
  loaded: Loaded;
  query: Query;
  change: (changes: Record<string, string | number | boolean | undefined>) => void;
}

function MetricView({ metric, loaded, query, change }: MetricProps) {
  const { data, siblings, sessions, environments } = loaded;
  const time = query.x === 'time';
  const band = query.band !== '0';
  const plot = useMemo(() => {
    const drawn: Drawn[] = [data, ...siblings].flatMap((one) => {
      const column = one === data ? metric : one.metrics.find((other) => other.name === metric.name);
      return column ? [{ data: one, column, places: ordered(one, sessions) }] : [];
    });
    return makePlot(drawn, { sessions, environments, time, band });
  }, [data, siblings, metric, time, band, sessions]);
  const view: View = { log: query.log === '1', zero: query.zero === '1', from: number(query.from), to: number(query.to) };
  const pinned = useMemo(() => [query.a, query.b].filter((id) => id !== undefined).map((id) => plot.points.findIndex((point) => idOf(plot, point) === id)).filter((at) => at >= 0), [plot, query.a, query.b]);
  const pick = (at: number) => {
    const id = idOf(plot, plot.points[at]);
    if (query.a === id) change({ a: query.b, b: undefined });
    else if (query.b === id) change({ b: undefined });
    else change(query.a ? { b: id } : { a: id });
  };
  const findings = data.findings.filter((one) => one.metric === metric.name);
  return (
    <>
      <Plotted plot={plot} view={view} metric={metric} loaded={loaded} pinned={pinned} panning={query.drag === 'pan'} onPick={pick} change={change} />
      {pinned.length > 0 && <PointCompare plot={plot} metric={metric} loaded={loaded} pinned={pinned} onClear={() => change({ a: undefined, b: undefined })} />}
      {findings.length > 0 && (
        <section aria-label="Changes found">
          <h2>Changes</h2>
          {findings.map((one) => (
            <article key={one.id} class={`card finding ${one.verdict} ${query.f === one.id ? 'chosen' : ''}`}>
              <code class="soft id">{one.id}</code>
              <Effect verdict={one.verdict} effect={one.effect} /> <Standing finding={one} />{' '}
              <span class="soft">
                between {moment(one.last_good?.time)} <Revision revision={one.last_good?.revision} /> and {moment(one.first_bad?.time)} <Revision revision={one.first_bad?.revision} /> · chance of a false alarm {one.p_value === undefined ? '–' : one.p_value < 1e-9 ? 'below 1e-9' : one.p_value.toPrecision(2)}
              </span>
              <Causes findings={[one]} />
            </article>
          ))}
        </section>
      )}
      <Fold name="spread" class="card" title="Distribution">
        <Distribution plot={plot} view={view} metric={metric} name={`${data.key} ${metric.name}`} />
      </Fold>
      <Fold name="table" class="card" title="Table of the points shown">
        <Numbers plot={plot} metric={metric} loaded={loaded} view={view} />
      </Fold>
    </>
  );
}

const number = (text: string | undefined) => (text === undefined || text === '' || !Number.isFinite(Number(text)) ? undefined : Number(text));

export function idOf(plot: CasePlot, point: CasePlot['points'][number]): string {
  const several = plot.points[0].drawn !== plot.points[plot.points.length - 1].drawn || (plot.points.length > 1 && plot.points[0].drawn !== plot.points[1].drawn);
  return `${point.drawn.data.session[point.place]}.${point.drawn.data.kind[point.place]}${several ? `.${point.drawn.data.key}` : ''}`;
}

function Plotted(props: {
  plot: CasePlot;
  view: View;
  metric: Column;
  loaded: Loaded;
  pinned: number[];
  panning: boolean;
  onPick: (at: number) => void;
  change: (changes: Record<string, string | number | undefined>) => void;
}) {
  const { plot, view, metric, loaded, panning } = props;
  const [hover, setHover] = useState<Hover | null>(null);
  const [held, setHeld] = useState<Hover | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const name = `${loaded.data.key} ${metric.name}`;
  return (
    <div class="card plot" ref={box}>
      <div class="plot-head">
        <h2>
          {plain(metric.name)} <span class="soft">{metric.unit && plain(metric.unit)} {metric.direction && `· ${metric.direction} is better`}</span>
        </h2>
        <div class="legend">
          {plot.groups.length > 1 &&
            plot.groups.map((group) => (
              <span key={group.label}>
                <i class={`swatch ${group.colour} ${group.dashed ? 'dashed' : ''}`} aria-hidden="true" /> {plain(group.label)}
              </span>
            ))}
          {plot.failures.length > 0 && (
            <span>
              <span class="cross" aria-hidden="true">✕</span> not passed
            </span>
          )}
        </div>
      </div>
      <div class="plot-box">
        <Chart
          plot={plot}
          view={view}
          title={`${name}, ${plural(plot.points.length, 'point')}`}
          pinned={props.pinned}
          panning={panning}
          onView={(from, to) => props.change({ from, to })}
          onHover={(at, left, top) => setHover(at === null || at >= plot.points.length ? null : { at, left, top })}
          onHeld={setHeld}
          onPick={props.onPick}
        />
        {held && <Tip key={`held ${held.at}`} hover={held} plot={plot} metric={metric} loaded={loaded} width={box.current?.clientWidth ?? 800} onClose={() => props.onPick(held.at)} />}
        {hover && hover.at !== held?.at && <Tip hover={hover} plot={plot} metric={metric} loaded={loaded} width={box.current?.clientWidth ?? 800} />}
      </div>
      <div class="bar foot">
        <Toggle label="Drag pans" on={panning} onChange={(on) => props.change({ drag: on ? 'pan' : undefined })} title="Otherwise a drag zooms, and shift with a drag pans" />
        <button type="button" disabled={view.from === undefined} onClick={() => props.change({ from: undefined, to: undefined })}>
          Show all
        </button>
        <span class="soft hint">Click a point to hold it and open its log, a second one to compare.</span>
        <span class="grow" />
        <Downloads plot={plot} view={view} metric={metric} loaded={loaded} box={box} name={name} />
      </div>
    </div>
  );
}

function Downloads({ plot, view, metric, loaded, box, name }: { plot: CasePlot; view: View; metric: Column; loaded: Loaded; box: { current: HTMLDivElement | null }; name: string }) {
  const shown = () => visible(plot, view).map((at) => rowOf(plot, at, loaded));
  return (
    <span class="downloads">
      <span class="soft">Download</span>
      <button type="button" onClick={() => saveCsv(name, HEAD, shown().map((row) => [row.time, row.session, row.revision, row.status, row.environment, row.value, row.samples.join(' ')]))}>
        CSV
      </button>
      <button type="button" onClick={() => saveJson(name, { case: loaded.data.key, metric: metric.name, unit: metric.unit, direction: metric.direction, points: shown() })}>
        JSON
      </button>
      <button type="button" onClick={() => savePng(name, box.current)}>
        PNG
      </button>
      <button type="button" onClick={() => saveSvg(name, name, plot, view)}>
        SVG
      </button>
    </span>
  );
}

const HEAD = ['time', 'session', 'revision', 'status', 'environment', 'value', 'samples'];

export function visible(plot: CasePlot, view: View): number[] {
  const places: number[] = [];
  for (let at = 0; at < plot.points.length; at++) {
    if (plot.x[at] >= (view.from ?? -Infinity) && plot.x[at] <= (view.to ?? Infinity)) places.push(at);
  }
  return places;
}

export function rowOf(plot: CasePlot, at: number, loaded: Loaded) {
  const { drawn, place } = plot.points[at];
  const { data, column } = drawn;
  const session = loaded.sessions.get(data.session[place]);
  const environment = loaded.environments.get(data.environment[place]);
  const value = column.values[place];
  return {
    case: data.key,
    variant: data.kinds[data.kind[place]]?.variant ?? '',
    time: Number.isNaN(data.time[place]) ? '' : new Date(data.time[place]).toISOString(),
    session: session?.name ?? '',
    session_id: session?.id ?? '',
    revision: data.revision.get(place) ?? session?.revision ?? '',
    status: data.status[place],
    reason: data.reason.get(place) ?? '',
    environment: environment?.[1] ?? '',
    host: environment?.[5] ?? '',
    python: environment?.[3] ?? '',
    platform: environment?.[4] ?? '',
    value: Number.isNaN(value) ? null : value,
    samples: [...samplesOf(column, place)],
  };
}

/** A point of the chart, and where in it that is. */
interface Hover {
  at: number;
  left: number;
  top: number;
}

/** What is known of a point; of one that is held it stays, and leads to the log. Two are told of below the chart. */
function Tip({ hover, plot, metric, loaded, width, onClose }: { hover: Hover; plot: CasePlot; metric: Column; loaded: Loaded; width: number; onClose?: () => void }) {
  const { left, top } = hover;
  const row = rowOf(plot, hover.at, loaded);
  const right = left > width / 2;
  const told = onClose ? ({ role: 'group', 'aria-label': 'Point held' } as const) : { 'aria-hidden': true };
  return (
    <div class={`tip ${right ? 'to-left' : ''} ${onClose ? 'held' : ''}`} style={{ left: `${left + 78}px`, top: `${Math.max(0, top - 20)}px` }} {...told}>
      <strong>{quantity(row.value, metric.unit)}</strong> {row.status !== 'passed' && <Status status={row.status} />}
      {row.samples.length > 1 && (
        <div class="soft">
          {row.samples.length} samples, {quantity(Math.min(...row.samples), metric.unit)} to {quantity(Math.max(...row.samples), metric.unit)}
        </div>
      )}
      {loaded.siblings.length > 0 && <div>{plain(row.case)}</div>}
      <div>
        {moment(row.time)} {row.revision && <code>{short(row.revision)}</code>}
      </div>
      <div class="soft">
        {plain(row.session)} {row.host && `· ${plain(row.host)}`}
      </div>
      <div class="soft">{plain([row.python && `Python ${row.python}`, row.platform].filter(Boolean).join(' · '))}</div>
      {row.reason && <div class="reason">{plain(row.reason)}</div>}
      {onClose && (
        <div class="tip-foot">
          <a href={logLink(row.session_id, row.case, row.variant)}>Log of this run</a>
          <button type="button" aria-label="Let go of this point" onClick={onClose}>
            ✕
          </button>
        </div>
      )}
    </div>
  );
}

function Numbers({ plot, metric, loaded, view }: { plot: CasePlot; metric: Column; loaded: Loaded; view: View }) {
  const places = useMemo(() => visible(plot, view).reverse(), [plot, view.from, view.to]);
  return (
    <Table<number>
      caption={`${loaded.data.key} ${metric.name}`}
      rows={places}
      first={50}
      id={(at) => at}
      columns={[
        { name: 'Time', show: (at) => moment(rowOf(plot, at, loaded).time), sort: (at) => plot.points[at].drawn.data.time[plot.points[at].place] },
        { name: 'Value', show: (at) => quantity(rowOf(plot, at, loaded).value, metric.unit), sort: (at) => plot.points[at].drawn.column.values[plot.points[at].place], numeric: true },
        { name: 'Samples', show: (at) => rowOf(plot, at, loaded).samples.length, numeric: true },
        { name: 'Status', show: (at) => <Status status={rowOf(plot, at, loaded).status} /> },
        { name: 'Revision', show: (at) => <Revision revision={rowOf(plot, at, loaded).revision} /> },
        {
          name: 'Session and log',
          show: (at) => {
            const row = rowOf(plot, at, loaded);
            return <a href={logLink(row.session_id, row.case, row.variant)}>{plain(row.session)}</a>;
          },
        },
        { name: 'Machine', show: (at) => plain(rowOf(plot, at, loaded).host) },
      ]}
    />
  );
}
