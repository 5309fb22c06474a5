// Two sides held against each other: sessions, revisions, branches or arms.

import { useMemo } from 'preact/hooks';
import { Paired, Quality } from '../evals';
import { loadEvals, type EvalsFile } from '../evals_data';
import { saveCsv, saveJson } from '../export';
import { moment, percent, plural, quantity, ratio, short } from '../format';
import { lastAttempts, loadEnvironments, loadSession, loadSessions, primary, samplesOf, type EnvironmentHead, type Overview, type Session, type SessionData } from '../model';
import { heatOf, type HeatCell } from '../pictures';
import { useQuery, type Route } from '../router';
import { Scatter } from '../scatter';
import { compare, doubtOf, median, type Comparison } from '../stats';
import { caseLink, Choice, Effect, Failed, Loading, named, PictureDownload, plain, Table, useLoaded } from '../ui';

const MOST_SESSIONS = 12;
const MOST_TRIALS = 200;

interface Side {
  text: string;
  sessions: Session[];
  variant: string | null;
  /** Of an execution of evals, the attention that it is about. */
  attention?: string;
}

export interface Compared extends Omit<Comparison, 'levels'> {
  case: string;
  metric: string;
  unit: string;
  direction: string;
  before: number;
  after: number;
  starts: [number, number];
  /** The machines that both ran on; empty if they have none in common. */
  machine: string;
}

export function ComparePage({ route, overview }: { route: Route; overview: Overview }) {
  const [query, change] = useQuery(route);
  const { value: sessions } = useLoaded(() => allSessions(overview), [overview]);
  if (!overview.sessions.length) return <p class="calm">No sessions yet.</p>;
  if (!sessions) return <Loading />;
  if (sessions.length === 1 && !sessions[0].attentions && !sessions[0].variants)
    return (
      <>
        <h1>Compare</h1>
        <p class="calm">There is one session so far. With a second one, the two can be held against each other here.</p>
      </>
    );
  const choices = choicesOf(sessions);
  const b = query.b ?? `s:${sessions[0].id}`;
  const a = query.a ?? `s:${likeliest(sessions, b).id}`;
  const sides: [Side, Side] = [sideOf(a, sessions), sideOf(b, sessions)];
  const Shown = sides.every((side) => side.attention !== undefined && side.sessions.length) ? EvalsResult : Result;
  return (
    <>
      <h1>Compare</h1>
      <div class="bar">
        <Choice label="Baseline" value={a} options={withOwn(choices, a)} onChange={(value) => change({ a: value })} />
        <button type="button" aria-label="Exchange the sides" title="Exchange the sides" onClick={() => change({ a: b, b: a })}>
          ⇄
        </button>
        <Choice label="Candidate" value={b} options={withOwn(choices, b)} onChange={(value) => change({ b: value })} />
      </div>
      <Shown key={`${a} ${b}`} a={sides[0]} b={sides[1]} sessions={sessions} query={query} change={change} />
    </>
  );
}

/** The newest session before the candidate that is of the same sort: nights stand beside nights, evals beside evals. */
function likeliest(sessions: Session[], candidate: string): Session {
  const at = sessions.findIndex((one) => `s:${one.id}` === candidate);
  const others = sessions.slice(at + 1);
  const like = (one: Session) => one.kind === sessions[at]?.kind && Boolean(one.attentions) === Boolean(sessions[at]?.attentions);
  return others.find((one) => like(one) && one.branch === sessions[at]?.branch) ?? others.find(like) ?? sessions.find((one) => `s:${one.id}` !== candidate) ?? sessions[0];
}

async function allSessions(overview: Overview): Promise<Session[]> {
  if (overview.counts.sessions <= overview.sessions.length) return overview.sessions;
  const last = overview.sessions.reduce((most, session) => Math.max(most, session.number), 0);
  const found = await loadSessions(Array.from({ length: Math.floor(last / 512) + 1 }, (_, shard) => shard * 512));
  return [...found.values()].sort((x, y) => (y.started ?? '').localeCompare(x.started ?? ''));
}

type Option = [value: string, text: string];

function choicesOf(sessions: Session[]): Option[] {
  const unique = (values: (string | undefined)[]) => [...new Set(values.filter((value): value is string => Boolean(value)))];
  const nights = sessions.filter((one) => one.kind !== 'ab');
  return [
    ...nights.slice(0, 200).map((one): Option => [`s:${one.id}`, `${plain(one.name)} · ${moment(one.started)}`]),
    ...experimentsOf(sessions).flatMap(([name, arms]) => arms.map((arm): Option => [armSide(name, arm), `arm ${plain(arm)} of ${plain(name)}`])),
    ...nights.slice(0, 200).flatMap((one) => (one.attentions ?? []).map((name): Option => [attentionSide(one.id, name), `attention ${plain(name)} of ${plain(one.name)}`])),
    ...unique(nights.map((one) => one.branch)).slice(0, 50).map((branch): Option => [`b:${branch}`, `branch ${plain(branch)}, last ${MOST_SESSIONS} sessions`]),
    ...unique(nights.map((one) => one.revision)).slice(0, 200).map((revision): Option => [`r:${revision}`, `revision ${short(revision)}`]),
  ];
}

/** A/B tests with their arms, in the order they came up: the first that ran is the baseline more often than not. */
function experimentsOf(sessions: Session[]): [name: string, arms: string[]][] {
  const found = new Map<string, Set<string>>();
  for (const one of [...sessions].reverse()) {
    if (!one.variants?.length) continue;
    const name = experimentOf(one);
    const arms = found.get(name) ?? new Set<string>();
    one.variants.forEach((arm) => arms.add(arm));
    found.set(name, arms);
  }
  return [...found].map(([name, arms]) => [name, [...arms]]);
}

const experimentOf = (one: Session) => (one.kind === 'ab' && one.name.includes('/') ? one.name.slice(0, one.name.lastIndexOf('/')) : one.name);
const armSide = (experiment: string, arm: string) => `v:${JSON.stringify([experiment, arm])}`;

export const attentionSide = (session: string, name: string) => `e:${JSON.stringify([session, name])}`;

const withOwn = (choices: Option[], value: string): Option[] => (choices.some(([one]) => one === value) ? choices : [[value, plain(value)], ...choices]);

function sideOf(text: string, sessions: Session[]): Side {
  const kind = text.slice(0, 1);
  const rest = text.slice(2);
  if (kind === 'b') return { text, sessions: sessions.filter((one) => one.branch === rest).slice(0, MOST_SESSIONS), variant: null };
  if (kind === 'r') return { text, sessions: sessions.filter((one) => one.revision === rest).slice(0, MOST_SESSIONS), variant: null };
  if (kind === 'v') {
    const [experiment, arm] = twoOf(rest);
    return { text, sessions: sessions.filter((one) => experimentOf(one) === experiment && one.variants?.includes(arm)).slice(0, MOST_TRIALS), variant: arm };
  }
  if (kind === 'e') {
    const [id, attention] = twoOf(rest);
    return { text, sessions: sessions.filter((one) => one.id === id), variant: null, attention };
  }
  return { text, sessions: sessions.filter((one) => one.id === rest), variant: null };
}

function twoOf(text: string): [string, string] {
  try {
    const found: unknown = JSON.parse(text);
    if (Array.isArray(found)) return [String(found[0]), String(found[1])];
  } catch {
    // an address that somebody wrote by hand
  }
  return ['', ''];
}

interface ResultProps {
  a: Side;
  b: Side;
  sessions: Session[];
  query: Record<string, string>;
  change: (changes: Record<string, string | undefined>) => void;
  /** Metrics that are told elsewhere, and better. */
  without?: ReadonlySet<string>;
}

const EVAL_VIEWS: Option[] = [
  ['paired', 'paired differences'],
  ['quality', 'quality against cost'],
  ['table', 'times and memory'],
];

/** Two attentions: what they did to each sample, unless somebody wants the numbers of the runs as a whole. */
function EvalsResult(props: ResultProps) {
  const { a, b, query, change } = props;
  const { value, error } = useLoaded(() => Promise.all([a, b].map((side) => loadEvals(side.sessions[0].id))), [a.text, b.text]);
  if (error) return <Failed error={error} />;
  if (!value) return <Loading />;
  const view = EVAL_VIEWS.some(([name]) => name === query.view) ? query.view : 'paired';
  const sides = [a, b].map((side, at) => ({ file: value[at] as EvalsFile, attention: side.attention ?? '' }));
  return (
    <>
      <div class="bar">
        <Choice label="Show" value={view} options={EVAL_VIEWS} onChange={(choice) => change({ view: choice })} />
      </div>
      {view === 'paired' && <Paired a={sides[0]} b={sides[1]} query={query} change={change} />}
      {view === 'quality' && <Quality file={value[1]} query={query} change={change} />}
      {view === 'table' && <Result {...props} without={new Set(value.flatMap((file) => file.stubs.map((stub) => stub.metric)))} />}
    </>
  );
}

function Result({ a, b, sessions, query, change, without }: ResultProps) {
  const { value, error } = useLoaded(
    async () => ({ sides: await Promise.all([a, b].map((side) => Promise.all(side.sessions.map((one) => loadSession(one.id))))), heads: await loadEnvironments() }),
    [a.text, b.text],
  );
  const all = useMemo(() => (value ? compareSides(a, value.sides[0], b, value.sides[1], value.heads) : null), [value]);
  if (error) return <Failed error={error} />;
  if (!all || !value) return <Loading />;
  const judged = all.compared.filter((one) => (query.all === '1' || one.direction) && !without?.has(one.metric));
  const metrics = [...new Set(judged.map((one) => one.metric))].sort();
  const rows = judged
    .filter((one) => !query.m || one.metric === query.m)
    .filter((one) => !query.verdict || one.verdict === query.verdict)
    .filter((one) => !query.q || one.case.toLowerCase().includes(query.q.toLowerCase()));
  const view = query.view ?? 'table';
  return (
    <>
      <Summary rows={rows} missing={all.missing} />
      <div class="bar">
        <label class="choice wide">
          <span>Filter</span>
          <input type="search" value={query.q ?? ''} onInput={(event) => change({ q: (event.target as HTMLInputElement).value })} />
        </label>
        <Choice label="Metric" value={query.m ?? ''} options={[['', 'all'], ...metrics.map((name): Option => [name, plain(name)])]} onChange={(m) => change({ m })} />
        <Choice label="Verdict" value={query.verdict ?? ''} options={[['', 'all'], 'worse', 'better', 'same', 'inconclusive']} onChange={(verdict) => change({ verdict })} />
        {a.attention === undefined && <Choice label="Show" value={view} options={[['table', 'table'], ['heat', 'heat map'], ['scatter', 'one metric against another']]} onChange={(choice) => change({ view: choice })} />}
        <span class="grow" />
        <span class="downloads">
          <span class="soft">Download</span>
          <button type="button" onClick={() => saveCsv('compare', ['case', 'metric', 'unit', 'verdict', 'ratio', 'low', 'high', 'before', 'after'], rows.map((one) => [one.case, one.metric, one.unit, one.verdict, one.ratio, one.low, one.high, one.before, one.after]))}>
            CSV
          </button>
          <button type="button" onClick={() => saveJson('compare', { comparisons: rows, missing: all.missing })}>
            JSON
          </button>
        </span>
      </div>
      {a.sessions.length === 1 && b.sessions.length === 1 && a.variant === null && <p class="soft">One session a side: what differs from session to session by itself is not in the intervals; 1.5 % are allowed for before anything is called worse. A branch, or several sessions of a revision, tell more.</p>}
      {!all.compared.length && <p class="calm">The two sides have no case and metric in common.</p>}
      {view === 'table' && all.compared.length > 0 && <Comparisons rows={rows} />}
      {view === 'heat' && a.variant === null && <HeatMap rows={rows} />}
      {view === 'heat' && a.variant !== null && <ArmsMap baseline={a} sessions={sessions} metric={query.m} />}
      {view === 'scatter' && <Scatter sides={value.sides} names={['baseline', 'candidate']} query={query} change={change} />}
    </>
  );
}

const ORDER: Record<string, number> = { worse: 0, better: 1, inconclusive: 2, same: 3 };

type Heads = Map<number, EnvironmentHead>;

function compareSides(a: Side, before: SessionData[], b: Side, after: SessionData[], heads: Heads): { compared: Compared[]; missing: string[] } {
  const [old, fresh] = [startsOf(before, a, heads), startsOf(after, b, heads)];
  const compared: Compared[] = [];
  const missing: string[] = [];
  for (const [id, left] of old) {
    const right = fresh.get(id);
    if (!right) {
      missing.push(id);
      continue;
    }
    const common = [...left.starts.keys()].filter((machine) => right.starts.has(machine));
    for (const machine of common) compared.push(held(left, left.starts.get(machine) ?? [], right.starts.get(machine) ?? [], machine));
    // Numbers of different machines stand side by side, and prove nothing.
    if (!common.length) compared.push({ ...held(left, [...left.starts.values()].flat(), [...right.starts.values()].flat(), ''), verdict: 'inconclusive' });
  }
  const size = (one: Compared) => Math.abs(Math.log(Math.max(one.ratio, 1e-9)));
  compared.sort((one, other) => ORDER[one.verdict] - ORDER[other.verdict] || size(other) - size(one));
  return { compared, missing };
}

function held(of: Starts, left: Float64Array[], right: Float64Array[], machine: string): Compared {
  const [x, y] = samples(left, right);
  const facts = { case: of.case, metric: of.metric, unit: of.unit, direction: of.direction, machine };
  const starts: [number, number] = [left.length, right.length];
  const { levels, ...found } = compare(x, y, of.direction === 'higher', undefined, Math.min(...starts) < FEWEST_STARTS ? doubtOf(starts) : 0);
  return { ...found, ...facts, before: levels[0], after: levels[1], starts };
}

const MEASURED = new Set(['passed', 'requirement_failed']);
const FEWEST_STARTS = 3;

/** With enough records on both sides each counts as one start; of fewer, every sample does. */
function samples(left: Float64Array[], right: Float64Array[]): Float64Array[] {
  const enough = Math.min(left.length, right.length) >= FEWEST_STARTS;
  return [left, right].map((starts) => (enough ? Float64Array.from(starts, median) : Float64Array.from(starts.flatMap((start) => [...start]))));
}

interface Starts {
  case: string;
  metric: string;
  unit: string;
  direction: string;
  /** By the class of machines they ran on. */
  starts: Map<string, Float64Array[]>;
}

function startsOf(sessions: SessionData[], { variant, attention }: Side, heads: Heads): Map<string, Starts> {
  const found = new Map<string, Starts>();
  for (const data of sessions) {
    for (const record of lastAttempts(data.records)) {
      if (record.setup || !MEASURED.has(record.status) || (variant !== null && record.variant !== variant)) continue;
      const name = attention === undefined ? record.case : withoutAttention(record.case, attention);
      if (name === null) continue;
      for (const metric of data.metrics) {
        if (Number.isNaN(metric.values[record.place])) continue;
        const id = JSON.stringify([name, variant === null ? record.variant : '', metric.name, metric.unit]);
        const known = found.get(id) ?? { case: record.case, metric: metric.name, unit: metric.unit, direction: metric.direction, starts: new Map<string, Float64Array[]>() };
        const head = heads.get(record.environment);
        const machine = head ? `${head[5]}\0${head[2]}` : 'unknown';
        known.starts.set(machine, [...(known.starts.get(machine) ?? []), samplesOf(metric, record.place)]);
        found.set(id, known);
      }
    }
  }
  return found;
}

/** The case of an eval without its attention, by which two of them meet; null for one of another attention. */
function withoutAttention(key: string, attention: string): string | null {
  const told = ['[', ','].map((before) => `${before}attention=${attention}`).find((text) => [',', ']'].some((after) => key.includes(text + after)));
  return told === undefined ? null : key.replace(told, told[0]);
}

function Summary({ rows, missing }: { rows: Compared[]; missing: string[] }) {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(row.verdict, (counts.get(row.verdict) ?? 0) + 1);
  const logs = rows.filter((row) => row.ratio > 0 && Number.isFinite(row.ratio) && row.direction).map((row) => Math.log(row.ratio) * (row.direction === 'higher' ? -1 : 1));
  const mean = logs.length ? Math.exp(logs.reduce((sum, value) => sum + value, 0) / logs.length) : NaN;
  return (
    <div class="tiles">
      {(['worse', 'better', 'same', 'inconclusive'] as const).map((verdict) => (
        <div key={verdict} class={`tile ${verdict === 'worse' && counts.get(verdict) ? 'worse' : verdict === 'better' && counts.get(verdict) ? 'better' : 'calm'}`}>
          <strong>{counts.get(verdict) ?? 0}</strong>
          <span>{verdict}</span>
        </div>
      ))}
      <div class="tile calm">
        <strong>{ratio(mean)}</strong>
        <span>geometric mean of the cost; below 1 the candidate is better</span>
      </div>
      {missing.length > 0 && (
        <div class="tile calm">
          <strong>{missing.length}</strong>
          <span>series only in the baseline</span>
        </div>
      )}
    </div>
  );
}

function Comparisons({ rows }: { rows: Compared[] }) {
  const reach = Math.min(1, Math.max(0.05, ...rows.slice(0, 400).map((row) => Math.abs(row.ratio - 1)).filter(Number.isFinite)));
  return (
    <Table<Compared>
      caption="Comparison"
      rows={rows}
      id={(row) => `${row.case}/${row.metric}/${row.unit}/${row.machine}`}
      columns={[
        { name: 'Case', show: (row) => <a href={caseLink(row.case, row.metric)}>{named(row.case)}</a>, sort: (row) => row.case },
        { name: 'Metric', show: (row) => <span class="metric">{plain(row.metric)}</span>, sort: (row) => row.metric },
        { name: 'Baseline', show: (row) => quantity(row.before, row.unit), sort: (row) => row.before, numeric: true },
        { name: 'Candidate', show: (row) => quantity(row.after, row.unit), sort: (row) => row.after, numeric: true },
        { name: 'Effect', show: (row) => <Effect verdict={row.verdict} effect={row.ratio - 1} />, sort: (row) => row.ratio, numeric: true },
        { name: '95 % interval', show: (row) => <Interval row={row} reach={reach} /> },
        { name: 'Machine', show: (row) => <span class="soft machine">{row.machine ? plain(row.machine.split('\0')[0]) : '⚠ different ones'}</span>, sort: (row) => row.machine },
        { name: 'Starts', show: (row) => row.starts.join(' / '), sort: (row) => row.starts[0] + row.starts[1], numeric: true },
      ]}
    />
  );
}

function Interval({ row, reach }: { row: Compared; reach: number }) {
  const x = (value: number) => 50 + (Math.max(-reach, Math.min(reach, value - 1)) / reach) * 46;
  const known = Number.isFinite(row.high) && row.low > 0;
  const text = known ? `${percent(row.low - 1)} to ${percent(row.high - 1)}` : 'one start a side: not known';
  return (
    <span class="interval-box" title={text}>
      <svg class={`interval ${row.verdict}`} width="100" height="18" role="img" aria-label={text}>
        <line class="zero" x1="50" x2="50" y1="0" y2="18" />
        {known && <line class="reach" x1={x(row.low)} x2={x(row.high)} y1="9" y2="9" />}
        <circle cx={x(row.ratio)} cy="9" r="4" />
      </svg>
    </span>
  );
}

/** All arms of an A/B test beside its baseline, the null arm among them: what it shows is chance. */
function ArmsMap({ baseline, sessions, metric }: { baseline: Side; sessions: Session[]; metric?: string }) {
  const [experiment] = twoOf(baseline.text.slice(2));
  const arms = (experimentsOf(sessions).find(([name]) => name === experiment)?.[1] ?? []).filter((arm) => arm !== baseline.variant);
  const sides = arms.map((arm) => sideOf(armSide(experiment, arm), sessions));
  const { value, error } = useLoaded(
    async () => ({ all: await Promise.all([baseline, ...sides].map((side) => Promise.all(side.sessions.map((one) => loadSession(one.id))))), heads: await loadEnvironments() }),
    [baseline.text],
  );
  if (error) return <Failed error={error} />;
  if (!value) return <Loading />;
  const found = sides.map((side, at) => compareSides(baseline, value.all[0], side, value.all[at + 1], value.heads).compared.filter((one) => one.direction));
  const names = [...new Set(found.flat().map((one) => one.metric))];
  const shown = metric ?? primary(names.map((name) => ({ name, direction: 'x' })))?.name ?? '';
  const rows = found.flatMap((several, at) => several.filter((one) => one.metric === shown).map((one) => ({ ...one, metric: arms[at] })));
  return (
    <>
      <p class="soft">
        {plain(shown)} of each arm beside {plain(baseline.variant ?? '')}. Runs are not paired here; <code>paceline ab</code> pairs them and sees smaller differences.
      </p>
      <HeatMap rows={rows} />
    </>
  );
}

const MOST_HEAT_ROWS = 200;

function HeatMap({ rows }: { rows: Compared[] }) {
  const metrics = [...new Set(rows.map((row) => row.metric))].slice(0, 24);
  const cases = [...new Set(rows.map((row) => row.case))].slice(0, MOST_HEAT_ROWS);
  const cells = new Map(rows.map((row) => [JSON.stringify([row.case, row.metric]), row]));
  const cellOf = (name: string, metric: string) => cells.get(JSON.stringify([name, metric]));
  const draw = () =>
    heatOf('How much the candidate differs: orange is worse, blue better', cases, metrics, (name, metric) => {
      const row = cellOf(name, metric);
      return row && heatCell(row);
    });
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="Heat map of effects">
      <table class="heat">
        <caption>
          How much the candidate differs; <span class="key worse">worse</span> <span class="key better">better</span>, pale where it may be chance.
        </caption>
        <thead>
          <tr>
            <th scope="col">Case</th>
            {metrics.map((metric) => (
              <th key={metric} scope="col">
                {plain(metric)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {cases.map((name) => (
            <tr key={name}>
              <th scope="row">
                <a href={caseLink(name)}>{named(name)}</a>
              </th>
              {metrics.map((metric) => (
                <Cell key={metric} row={cellOf(name, metric)} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <p class="heat-foot">
        <span class="soft">
          {plural(cases.length, 'case')} and {plural(metrics.length, 'metric')}
        </span>
        <PictureDownload name="heat map" draw={draw} />
      </p>
    </div>
  );
}

function heatCell(row: Compared): HeatCell {
  const bad = row.ratio > 1 !== (row.direction === 'higher');
  const strength = Math.min(1, Math.abs(Math.log(Math.max(row.ratio, 1e-9))) / Math.log(1.5));
  const step = row.verdict === 'worse' || row.verdict === 'better' ? 1 + Math.round(strength * 3) : 0;
  return { text: percent(row.ratio - 1), tone: `${bad ? 'worse' : 'better'}-${step}` };
}

function Cell({ row }: { row?: Compared }) {
  if (!row) return <td />;
  const { text, tone } = heatCell(row);
  return (
    <td class={`cell ${tone}`} title={`${row.verdict}: ${percent(row.low - 1)} to ${percent(row.high - 1)}`}>
      {text}
    </td>
  );
}
