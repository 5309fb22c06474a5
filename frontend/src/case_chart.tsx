// The chart of a case with what belongs to it: which line is which, what is known of a point, where in the whole it is.

import { useMemo, useRef, useState } from 'preact/hooks';
import { datesAt, viewAt, type CasePlot } from './case_plot';
import { Chart } from './chart';
import { Context, extent, type View } from './drawing';
import { drawingOf, saveCsv, saveDrawing, saveJson, savePicture } from './export';
import { moment, plural, quantity, short } from './format';
import { samplesOf, type CaseData, type Column, type EnvironmentHead, type Session } from './model';
import { go, link, parse, type Query } from './router';
import { CopyLink, logLink, plain, Revision, Status, Table, Toggle } from './ui';

export interface Loaded {
  data: CaseData;
  sessions: Map<number, Session>;
  environments: Map<number, EnvironmentHead>;
}

interface Props {
  plot: CasePlot;
  metric: Column;
  loaded: Loaded;
  query: Record<string, string>;
  change: (changes: Query) => void;
  /** What is shown as long as nobody has chosen a stretch. */
  start?: { from?: number; to?: number };
  /** Whether a click on the name of a line shows it alone. */
  isolates?: boolean;
}

/** The stretch that the address names, or the one to begin with. */
export function viewOf(plot: CasePlot, query: Record<string, string>, start: { from?: number; to?: number } = {}): View {
  const stretch = query.from === 'all' ? {} : query.from === undefined ? start : viewAt(plot, query.from, query.to);
  return { log: query.log === '1', zero: query.zero === '1', ...stretch };
}

export function pinnedOf(plot: CasePlot, query: Record<string, string>): number[] {
  return [query.a, query.b].flatMap((id) => {
    const at = id === undefined ? -1 : plot.points.findIndex((_, place) => idOf(plot, place) === id);
    return at < 0 ? [] : [at];
  });
}

let lastMove = -Infinity;

/** A view that was chosen: going back undoes it. Movements that follow each other quickly are one. */
function keepView(changes: Query): void {
  const { path, query } = parse(location.hash);
  const now = performance.now();
  go(link(path, { ...query, ...changes }), now - lastMove > 1500);
  lastMove = now;
}

export function CaseChart({ plot, metric, loaded, query, change, start, isolates }: Props) {
  const [hover, setHover] = useState<Hover | null>(null);
  const [held, setHeld] = useState<Hover | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const name = `${loaded.data.key} ${metric.name}`;
  const panning = query.drag === 'pan';
  const view = viewOf(plot, query, start);
  const pinned = useMemo(() => pinnedOf(plot, query), [plot, query.a, query.b]);
  const [from, to] = extent(plot, view);
  const show = (begin: number | undefined, end: number | undefined) => {
    if (begin === undefined || end === undefined) return keepView(start?.from === undefined ? { from: undefined, to: undefined } : { from: 'all', to: undefined });
    const [first, last] = extent(plot, {});
    if (begin <= first && end >= last) return show(undefined, undefined);
    const [a, b] = datesAt(plot, begin, end);
    keepView({ from: a, to: b });
  };
  const pick = (at: number) => {
    const id = idOf(plot, at);
    if (query.a === id) change({ a: query.b, b: undefined });
    else if (query.b === id) change({ b: undefined });
    else change(query.a ? { b: id } : { a: id });
  };
  const isWhole = view.from === undefined;
  return (
    <div class="card plot" ref={box}>
      <div class="plot-head">
        <h2>
          {plain(metric.name)} <span class="soft">{metric.unit && plain(metric.unit)} {metric.direction && `· ${metric.direction} is better`}</span>
        </h2>
        <Legend plot={plot} only={query.only} onOnly={isolates ? (only) => change({ only }) : undefined} />
      </div>
      <div class="plot-box">
        <Chart
          plot={plot}
          view={view}
          title={`${name}, ${plural(plot.points.length, 'point')}`}
          pinned={pinned}
          panning={panning}
          onView={show}
          onHover={(at, left, top) => setHover(at === null || at >= plot.points.length ? null : { at, left, top })}
          onHeld={setHeld}
          onPick={pick}
        />
        {held && <Tip key={`held ${held.at}`} hover={held} plot={plot} metric={metric} loaded={loaded} width={box.current?.clientWidth ?? 800} onClose={() => pick(held.at)} />}
        {hover && hover.at !== held?.at && <Tip hover={hover} plot={plot} metric={metric} loaded={loaded} width={box.current?.clientWidth ?? 800} />}
      </div>
      {!isWhole && <Context plot={plot} from={from} to={to} onView={show} />}
      <div class="bar foot">
        <button type="button" disabled={isWhole} onClick={() => show(undefined, undefined)}>
          Show all
        </button>
        <Toggle label="Drag pans" on={panning} onChange={(on) => change({ drag: on ? 'pan' : undefined })} title="Otherwise a drag zooms, and shift with a drag pans" />
        <span class="soft hint">Click a point to hold it and open its log, a second one to compare.</span>
        <span class="grow" />
        <CopyLink />
        <Downloads plot={plot} view={view} metric={metric} loaded={loaded} box={box} name={name} />
      </div>
    </div>
  );
}

function Legend({ plot, only, onOnly }: { plot: CasePlot; only?: string; onOnly?: (only: string | undefined) => void }) {
  const shown = onOnly ? plot.lines : plot.lines.filter((line) => !line.dim);
  const behind = plot.lines.length - shown.length;
  return (
    <div class="legend">
      {plot.lines.length > 1 &&
        shown.map((line) => {
          const swatch = <i class={`swatch ${line.colour} ${line.dashed ? 'dashed' : ''}`} aria-hidden="true" />;
          return onOnly ? (
            <button key={line.label} type="button" class={line.dim ? 'dim' : ''} aria-pressed={only === line.label} title={only === line.label ? 'Shows all lines again' : 'Shows this line alone'} onClick={() => onOnly(only === line.label ? undefined : line.label)}>
              {swatch} {plain(line.label)}
            </button>
          ) : (
            <span key={line.label}>
              {swatch} {plain(line.label)}
            </span>
          );
        })}
      {behind > 0 && <span class="soft">{behind} other series behind</span>}
      {plot.more > 0 && (
        <span class="soft">
          the newest {plot.lines.length} of {plot.lines.length + plot.more}
        </span>
      )}
      {plot.failures.length > 0 && (
        <span>
          <span class="cross" aria-hidden="true">✕</span> not passed
        </span>
      )}
    </div>
  );
}

function Downloads({ plot, view, metric, loaded, box, name }: { plot: CasePlot; view: View; metric: Column; loaded: Loaded; box: { current: HTMLDivElement | null }; name: string }) {
  const shown = () => visible(plot, view).map((at) => rowOf(plot, at, loaded));
  const take = (save: (name: string, drawing: string) => void) => {
    const legend = plot.lines.length > 1 ? plot.lines.filter((line) => !line.dim) : [];
    const drawing = drawingOf(box.current?.querySelector<SVGSVGElement>('svg.drawing'), { title: name, legend });
    if (drawing) save(name, drawing);
  };
  return (
    <span class="downloads">
      <span class="soft">Download</span>
      <button type="button" onClick={() => saveCsv(name, HEAD, shown().map((row) => [row.time, row.session, row.revision, row.status, row.environment, row.value, row.samples.join(' ')]))}>
        CSV
      </button>
      <button type="button" onClick={() => saveJson(name, { case: loaded.data.key, metric: metric.name, unit: metric.unit, direction: metric.direction, points: shown() })}>
        JSON
      </button>
      <button type="button" onClick={() => take(savePicture)}>
        PNG
      </button>
      <button type="button" onClick={() => take(saveDrawing)}>
        SVG
      </button>
    </span>
  );
}

const HEAD = ['time', 'session', 'revision', 'status', 'environment', 'value', 'samples'];

/** The points in sight, of the line that is shown alone if one is. */
export function visible(plot: CasePlot, view: View): number[] {
  const places: number[] = [];
  for (let at = 0; at < plot.points.length; at++) {
    if (plot.x[at] >= (view.from ?? -Infinity) && plot.x[at] <= (view.to ?? Infinity) && !plot.lines[plot.of[at]]?.dim) places.push(at);
  }
  return places;
}

/** How the address calls a point: by its session, which no record that is added changes. */
export function idOf(plot: CasePlot, at: number): string {
  const { drawn, place } = plot.points[at];
  const several = plot.points[0].drawn !== drawn || plot.points[plot.points.length - 1].drawn !== drawn;
  return `${plot.sessionAt(at)?.id.slice(0, 10) ?? ''}.${drawn.data.kind[place]}${several ? `.${drawn.data.key}` : ''}`;
}

export function rowOf(plot: CasePlot, at: number, loaded: Loaded) {
  const { drawn, place } = plot.points[at];
  const { data, column } = drawn;
  const session = loaded.sessions.get(data.session[place]);
  const environment = loaded.environments.get(data.environment[place]);
  const value = column.values[place];
  return {
    case: data.key,
    line: plot.lines.length > 1 ? (plot.lines[plot.of[at]]?.label ?? '') : '',
    variant: data.kinds[data.kind[place]]?.variant ?? '',
    time: Number.isNaN(data.time[place]) ? '' : new Date(data.time[place]).toISOString(),
    committed: session?.committed ?? '',
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
  const told = onClose ? ({ role: 'group', 'aria-label': 'Point held' } as const) : { 'aria-hidden': true };
  return (
    <div class={`tip ${left > width / 2 ? 'to-left' : ''} ${onClose ? 'held' : ''}`} style={{ left: `${left}px`, top: `${Math.max(0, top - 20)}px` }} {...told}>
      <strong>{quantity(row.value, metric.unit)}</strong> {row.status !== 'passed' && <Status status={row.status} />}
      {row.samples.length > 1 && (
        <div class="soft">
          {row.samples.length} samples, {quantity(Math.min(...row.samples), metric.unit)} to {quantity(Math.max(...row.samples), metric.unit)}
        </div>
      )}
      {row.line && <div>{plain(row.line)}</div>}
      <div>
        {row.revision && <code>{short(row.revision)}</code>} {row.committed ? `of ${moment(row.committed)}` : moment(row.time)}
      </div>
      {row.committed && <div class="soft">measured {moment(row.time)}</div>}
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

export function PointTable({ plot, metric, loaded, view }: { plot: CasePlot; metric: Column; loaded: Loaded; view: View }) {
  const places = useMemo(() => visible(plot, view).reverse(), [plot, view.from, view.to]);
  const row = (at: number) => rowOf(plot, at, loaded);
  return (
    <Table<number>
      caption={`${loaded.data.key} ${metric.name}`}
      rows={places}
      first={50}
      id={(at) => at}
      columns={[
        { name: 'Value', show: (at) => quantity(row(at).value, metric.unit), sort: (at) => plot.y[at], numeric: true },
        { name: 'Status', show: (at) => <Status status={row(at).status} reason={row(at).reason} /> },
        { name: 'Commit', show: (at) => <Revision revision={row(at).revision} /> },
        { name: 'Of', show: (at) => (row(at).committed ? moment(row(at).committed) : ''), sort: (at) => plot.dates[at] },
        { name: 'Measured', show: (at) => moment(row(at).time), sort: (at) => plot.points[at].drawn.data.time[plot.points[at].place] },
        ...(plot.lines.length > 1 ? [{ name: 'Line', show: (at: number) => plain(row(at).line), sort: (at: number) => row(at).line }] : []),
        { name: 'Samples', show: (at) => row(at).samples.length, numeric: true },
        { name: 'Session and log', show: (at) => <a href={logLink(row(at).session_id, row(at).case, row(at).variant)}>{plain(row(at).session)}</a> },
      ]}
    />
  );
}
