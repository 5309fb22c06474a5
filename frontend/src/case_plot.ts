// From a case's records to what its chart shows: which lines there are, in which order, what changed where.

import type { Change, Level, Line, Plot } from './drawing';
import { day, percent } from './format';
import { samplesOf, type CaseData, type Column, type EnvironmentHead, type Finding, type Session, type Tag } from './model';
import { median } from './stats';
import { LINES } from './theme';

export interface Drawn {
  data: CaseData;
  column: Column;
  /** The case's records in the order they are drawn. */
  places: Int32Array;
}

export interface PointOf {
  drawn: Drawn;
  place: number;
}

export interface CasePlot extends Plot {
  /** For each point of the chart its case and its record there. */
  points: PointOf[];
  /** The date of each point: never earlier than that of one before it. */
  dates: Float64Array;
  /** Lines that were left out, since there are too many. */
  more: number;
  sessionAt: (at: number) => Session | undefined;
}

export interface Shown {
  sessions: Map<number, Session>;
  environments: Map<number, EnvironmentHead>;
  tags: Tag[];
  time: boolean;
  band: boolean;
  /** The line that all is about, by its label; the others stand behind it. */
  only?: string;
  /** The finding that the page is about. */
  finding?: string;
}

export const MOST_LINES = 16;

export function makePlot(drawn: Drawn[], shown: Shown): CasePlot {
  const points = pointsOf(drawn, shown);
  const labels = points.map(labelsOf(drawn, shown));
  const dates = datesOf(points, shown);
  const x = shown.time ? dates : slotsOf(points, labels, shown);
  const all = byNewest(labels);
  const kept = all.filter((label, at) => at < MOST_LINES || label === shown.only);
  const lines = kept.map((label, at) => lineOf(label, at, points, labels, shown));
  const number = new Map(kept.map((label, at) => [label, at]));
  const first = drawn[0];
  const findings = first ? first.data.findings.filter((one) => one.metric === first.column.name) : [];
  const told = drawn.length === 1 ? findings.filter((one) => isShown(one, lines, first.data, shown)) : [];
  const changes = told.map((finding) => changeOf(finding, points, x, shown)).filter((one): one is Change => one !== null);
  const bands = shown.band && lines.filter((line) => !line.dim).length <= 4 ? bandsOf(points) : {};
  return {
    x,
    y: Float64Array.from(points, (point) => (isMeasured(point) ? point.drawn.column.values[point.place] : NaN)),
    ...bands,
    of: Int16Array.from(labels, (label) => number.get(label) ?? -1),
    lines,
    points,
    dates,
    more: all.length - kept.length,
    sessionAt: (at) => sessionOf(points[at], shown),
    unit: first?.column.unit ?? '',
    failures: Int32Array.from(points.flatMap((point, at) => (isFine(point) || (shown.only && labels[at] !== shown.only) ? [] : [at]))),
    changes,
    epochs: epochsOf(first?.data, points, x),
    levels: drawn.length === 1 ? levelsOf(lines, changes, points, x) : [],
    tags: tagsOf(points, dates, x, shown),
    label: shown.time ? (place) => day(place) : (place) => day(dates[firstFrom(x, place)]),
    isTime: shown.time,
    isSlots: !shown.time,
  };
}

const finite = (value: number) => (Number.isNaN(value) ? null : value);
const sessionOf = (point: PointOf, shown: Shown) => shown.sessions.get(point.drawn.data.session[point.place]);
const revisionOf = (point: PointOf, shown: Shown) => point.drawn.data.revision.get(point.place) ?? sessionOf(point, shown)?.revision ?? '';

function pointsOf(drawn: Drawn[], shown: Shown): PointOf[] {
  const points = drawn.flatMap((one) => [...one.places].map((place) => ({ drawn: one, place })));
  if (drawn.length < 2) return points;
  const known = points.every((point) => sessionOf(point, shown)?.place !== undefined);
  const key = (point: PointOf) => (known ? (sessionOf(point, shown)?.place as number) : point.drawn.data.time[point.place]);
  return points.sort((a, b) => key(a) - key(b) || a.drawn.data.time[a.place] - b.drawn.data.time[b.place]);
}

/** When the commit was made, else when it was measured; those who lag behind are taken along. */
function datesOf(points: PointOf[], shown: Shown): Float64Array {
  let last = -Infinity;
  return Float64Array.from(points, (point) => {
    const committed = sessionOf(point, shown)?.committed;
    const date = committed ? new Date(committed).getTime() : point.drawn.data.time[point.place];
    if (date > last) last = date;
    return Number.isFinite(last) ? last : 0;
  });
}

/** A place for each commit; where a line has several points of one commit, for each of them. */
function slotsOf(points: PointOf[], labels: string[], shown: Shown): Float64Array {
  let [slot, revision] = [-1, ''];
  let there = new Set<string>();
  return Float64Array.from(points, (point, at) => {
    const now = revisionOf(point, shown) || `session ${point.drawn.data.session[point.place]}`;
    if (now !== revision || there.has(labels[at])) {
      slot++;
      revision = now;
      there = new Set();
    }
    there.add(labels[at]);
    return slot;
  });
}

/** The labels of the lines, that with the newest point first. */
const byNewest = (labels: string[]) => [...new Set([...labels].reverse())];

/** What tells a point's line from the others, in words that the history has for it. */
function labelsOf(drawn: Drawn[], shown: Shown): (point: PointOf) => string {
  const names = new Map<string, string>();
  const id = (...parts: string[]) => JSON.stringify(parts);
  for (const { data } of drawn) for (const one of data.names) names.set(id(data.key, one.variant, one.version, one.class), one.name);
  const alone = drawn[0]?.column.name ?? '';
  return ({ drawn: { data }, place }) => {
    const kind = data.kinds[data.kind[place]];
    const name = names.get(id(data.key, kind?.variant ?? '', kind?.version ?? '', shown.environments.get(data.environment[place])?.[2] ?? '')) ?? '';
    return [drawn.length > 1 ? paramsOf(data.key) : '', name].filter(Boolean).join(', ') || alone;
  };
}

export function paramsOf(key: string): string {
  const bracket = key.indexOf('[');
  return bracket < 0 ? key : key.slice(bracket + 1, -1);
}

function isFine(point: PointOf): boolean {
  const status = point.drawn.data.status[point.place];
  return status === 'passed' || status === 'skipped';
}

/** A run that failed may have left a number half-way; it is marked, and not joined to the line. */
function isMeasured(point: PointOf): boolean {
  const status = point.drawn.data.status[point.place];
  return status === 'passed' || status === 'requirement_failed';
}

function lineOf(label: string, at: number, points: PointOf[], labels: string[], shown: Shown): Line {
  const places = points.flatMap((point, i) => (labels[i] === label && isMeasured(point) && finite(point.drawn.column.values[point.place]) !== null ? [i] : []));
  return { label, colour: LINES[at % LINES.length], dashed: at >= LINES.length && label !== shown.only, dim: Boolean(shown.only) && label !== shown.only, places: Int32Array.from(places) };
}

function bandsOf(points: PointOf[]): Pick<Plot, 'low' | 'high'> {
  if (!points.some((point) => point.drawn.column.starts)) return {};
  const [low, high] = [new Float64Array(points.length), new Float64Array(points.length)];
  points.forEach((point, at) => {
    const samples = isMeasured(point) ? samplesOf(point.drawn.column, point.place) : [];
    let [least, most] = [Infinity, -Infinity];
    for (const sample of samples) {
      if (sample < least) least = sample;
      if (sample > most) most = sample;
    }
    [low[at], high[at]] = least <= most ? [least, most] : [NaN, NaN];
  });
  return { low, high };
}

/** The label of the line that a finding is about. */
export const labelOfFinding = (finding: Finding, data: CaseData, metric: string) =>
  data.names.find((one) => one.variant === (finding.variant ?? '') && one.version === (finding.version ?? '') && one.class === (finding.environment_class ?? ''))?.name || metric;

/** Among many lines only what is still to be seen at their ends is told of; of one line all. */
function isShown(finding: Finding, lines: Line[], data: CaseData, shown: Shown): boolean {
  if (finding.kind === 'stopped') return false;
  const label = labelOfFinding(finding, data, finding.metric);
  if (shown.only) return label === shown.only;
  return lines.length <= 2 || (!finding.ended && lines.some((line) => line.label === label));
}

function changeOf(finding: Finding, points: PointOf[], x: Float64Array, shown: Shown): Change | null {
  const at = (id: string | undefined, name: string | undefined) =>
    points.findIndex((point) => {
      const session = sessionOf(point, shown);
      return session !== undefined && (id ? session.id === id : session.name === name);
    });
  const to = at(finding.first_bad?.session_id, finding.first_bad?.session);
  if (to < 0) return null;
  const from = at(finding.last_good?.session_id, finding.last_good?.session);
  const sign = (finding.effect ?? 0) > 0 ? '▲' : '▼';
  return { from: from < 0 ? x[to] : Math.min(x[from], x[to]), to: x[to], verdict: finding.verdict, label: `${sign} ${percent(finding.effect)}`, chosen: finding.id === shown.finding };
}

function epochsOf(data: CaseData | undefined, points: PointOf[], x: Float64Array): { x: number; label: string }[] {
  return (data?.epochs ?? []).flatMap((epoch) => {
    const time = new Date(epoch.at).getTime();
    const at = points.findIndex((point) => point.drawn.data.time[point.place] >= time);
    return at < 0 ? [] : [{ x: at > 0 ? (x[at - 1] + x[at]) / 2 : x[0], label: epoch.why }];
  });
}

/** Each tag at the first commit that has it. */
function tagsOf(points: PointOf[], dates: Float64Array, x: Float64Array, shown: Shown): { x: number; label: string }[] {
  const revisions = new Map<string, number>();
  points.forEach((point, at) => {
    const revision = revisionOf(point, shown);
    if (!revisions.has(revision)) revisions.set(revision, at);
  });
  return shown.tags
    .flatMap((tag) => {
      const at = revisions.get(tag.revision) ?? firstFrom(dates, new Date(tag.time).getTime());
      return at < points.length ? [{ x: x[at], label: tag.name }] : [];
    })
    .sort((a, b) => a.x - b.x);
}

const MOST_LEVELS_FROM = 20000;

/** The median of each stretch between changes. */
function levelsOf(lines: Line[], changes: Change[], points: PointOf[], x: Float64Array): Level[] {
  const shown = lines.filter((line) => !line.dim);
  if (!changes.length || x.length > MOST_LEVELS_FROM || shown.length > 2) return [];
  const bounds = [-Infinity, ...changes.map((change) => change.to).sort((a, b) => a - b), Infinity];
  return shown.flatMap((line) =>
    bounds.slice(0, -1).flatMap((begin, at) => {
      const places = line.places.filter((i) => x[i] >= begin && x[i] < bounds[at + 1]);
      if (places.length < 2) return [];
      const value = median(Array.from(places, (i) => points[i].drawn.column.values[points[i].place]));
      return [{ from: x[places[0]], to: x[places[places.length - 1]], value, colour: line.colour }];
    }),
  );
}

/** The first of some ordered numbers that is not less; the last one if all are. */
export function firstFrom(numbers: Float64Array, wanted: number): number {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A stretch of the chart as dates, which stay right when records are added in between; and back. */
export function datesAt(plot: CasePlot, from: number, to: number): [string, string] {
  const inside = [firstFrom(plot.x, from), Math.max(0, firstFrom(plot.x, to + 1e-9) - 1)].map((at) => Math.min(at, plot.x.length - 1));
  return inside.map((at) => new Date(plot.isTime ? (at === inside[0] ? from : to) : plot.dates[at]).toISOString().slice(0, 19)) as [string, string];
}

export function viewAt(plot: CasePlot, from: string | undefined, to: string | undefined): { from?: number; to?: number } {
  const [begin, end] = [from, to].map((text) => (text ? new Date(`${text.slice(0, 19)}Z`).getTime() : NaN));
  if (Number.isNaN(begin) || Number.isNaN(end) || !plot.x.length) return {};
  if (plot.isTime) return { from: begin, to: end };
  const [first, last] = [firstFrom(plot.dates, begin), firstFrom(plot.dates, end + 1000) - 1];
  if (first >= plot.x.length || last < first) return {};
  return { from: plot.x[first] - 0.5, to: plot.x[last] + 0.5 };
}

/** So many points of the line on each side of a change. */
export function around(plot: CasePlot, change: Change, label: string, window = 30): { from: number; to: number } {
  const places = plot.lines.find((line) => line.label === label)?.places ?? Int32Array.from(plot.x.keys());
  const xs = Float64Array.from(places, (at) => plot.x[at]);
  const at = firstFrom(xs, change.to);
  const room = plot.isSlots ? 0.5 : 0;
  return { from: (xs[Math.max(0, at - window)] ?? change.from) - room, to: (xs[Math.min(xs.length - 1, at + window)] ?? change.to) + room };
}
