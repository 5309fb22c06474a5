// Two sides held against each other: what changed first, the environments they ran in, what could not be compared.

import { useMemo } from 'preact/hooks';
import { Combobox } from '../combobox';
import { compareSides, isDecided, loadNoises, loadOutcome, loadSide, type Missing, type Outcome, type Row } from '../comparing';
import { Paired, Quality } from '../evals';
import { loadEvals, type EvalsFile } from '../evals_data';
import { saveCsv, saveJson } from '../export';
import { day, percent, plural, quantity, ratio } from '../format';
import { HeatMap } from '../heat';
import { loadEnvironments, primary, type EnvironmentHead, type Overview } from '../model';
import { EnvironmentDiff } from '../point_compare';
import { useQuery, type Query, type Route } from '../router';
import { Scatter } from '../scatter';
import { armSide, classesOf, experimentsOf, findOptions, likeliest, loadKnown, nameOf, optionsOf, sideOf, twoOf, type Known, type Side } from '../sides';
import { caseLink, Choice, CopyLink, Effect, Failed, Fold, Loading, named, plain, Revision, Table, useLoaded } from '../ui';

type Heads = Map<number, EnvironmentHead>;

export function ComparePage({ route, overview }: { route: Route; overview: Overview }) {
  const [query, change] = useQuery(route);
  const { value, error } = useLoaded(async () => ({ known: await loadKnown(overview), heads: await loadEnvironments() }), [overview]);
  if (error) return <Failed error={error} />;
  if (!overview.sessions.length) return <p class="calm">No sessions yet.</p>;
  if (!value) return <Loading />;
  const { sessions } = value.known;
  if (sessions.length === 1 && !sessions[0].attentions && !sessions[0].variants)
    return (
      <>
        <h1>Compare</h1>
        <p class="calm">There is one session so far. With a second one, the two can be held against each other here.</p>
      </>
    );
  return <Chosen known={value.known} heads={value.heads} query={query} change={change} />;
}

interface ChosenProps {
  known: Known;
  heads: Heads;
  query: Record<string, string>;
  change: (changes: Query) => void;
}

function Chosen({ known, heads, query, change }: ChosenProps) {
  const options = useMemo(() => optionsOf(known), [known]);
  const b = query.b ?? `s:${known.sessions[0].id}`;
  const candidate = sideOf(b, known);
  const a = query.a ?? likeliest(known, candidate, heads);
  const sides: [Side, Side] = [sideOf(a, known), candidate];
  const Shown = sides.every((side) => side.attention !== undefined && side.sessions.length) ? EvalsResult : Result;
  const find = (typed: string) => findOptions(options, typed);
  return (
    <>
      <h1>Compare</h1>
      <div class="sides">
        {sides.map((side, at) => (
          <div key={at} class="side">
            <span class="letter">{'AB'[at]}</span>
            <Combobox label={at ? 'Candidate' : 'Baseline'} text={nameOf(side)} placeholder="tag, branch, commit, session or date" find={find} onChoose={(option) => change(at ? { a, b: option.value } : { a: option.value, b })} />
            <Facts side={side} heads={heads} />
          </div>
        ))}
        <div class="side-foot">
          <button type="button" aria-label="Exchange the sides" onClick={() => change({ a: b, b: a })}>
            ⇄ Exchange
          </button>
          <CopyLink />
        </div>
      </div>
      {sides.map((side, at) => !side.sessions.length && <p key={at} class="card calm">No session is known for {'AB'[at]}, {nameOf(side)}: choose another.</p>)}
      {sides.every((side) => side.sessions.length > 0) && <Shown key={`${a} ${b}`} a={sides[0]} b={sides[1]} known={known} heads={heads} query={query} change={change} />}
    </>
  );
}

/** What a side is made of: its commit, how many sessions, on which machines. */
function Facts({ side, heads }: { side: Side; heads: Heads }) {
  const first = side.sessions[0];
  if (!first) return null;
  const machines = [...new Set(side.sessions.flatMap((one) => (one.environments ?? []).map((number) => heads.get(number)?.[6] || heads.get(number)?.[5] || '')))].filter(Boolean);
  return (
    <span class="soft side-facts">
      <Revision revision={first.revision} /> {day(first.committed ?? first.started)}
      {side.sessions.length > 1 && ` · ${side.more ? `the newest ${side.sessions.length} of ${side.sessions.length + side.more}` : side.sessions.length} sessions`}
      {machines.length > 0 && ` · ${plain(machines.slice(0, 3).join(', '))}${machines.length > 3 ? ` +${machines.length - 3}` : ''}`}
    </span>
  );
}

interface ResultProps extends ChosenProps {
  a: Side;
  b: Side;
  /** Metrics that are shown elsewhere, and better. */
  without?: ReadonlySet<string>;
}

const EVAL_VIEWS: [string, string][] = [
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

function Result(props: ResultProps) {
  const { a, b, heads, query, change } = props;
  const anyway = query.anyway === '1';
  const { value, error } = useLoaded(() => loadOutcome(a, b, anyway), [a.text, b.text, anyway]);
  if (error) return <Failed error={error} />;
  if (!value) return <Loading />;
  if (value.unlike)
    return (
      <div class="card">
        <p>
          <b>A and B never ran on machines of the same kind</b>, so a difference may be the machine's. Choose a session of the same environment, or look at the numbers side by side.
        </p>
        <button type="button" onClick={() => change({ anyway: true })}>
          Compare anyway
        </button>
        <Differences a={a} b={b} heads={heads} />
      </div>
    );
  return <Shown {...props} outcome={value} />;
}

const TABS: [name: string, text: string, has: (row: Row) => boolean][] = [
  ['changed', 'Changed', isDecided],
  ['inconclusive', 'Inconclusive', (row) => row.verdict === 'inconclusive'],
  ['same', 'Same', (row) => row.verdict === 'same'],
  ['all', 'All', () => true],
];

function Shown({ a, b, known, heads, query, change, without, outcome }: ResultProps & { outcome: Outcome }) {
  const all = outcome.rows.filter((row) => !without?.has(row.metric));
  const metrics = [...new Set(all.map((row) => row.metric))].sort();
  const named = all.filter((row) => (!query.m || row.metric === query.m) && (!query.q || row.case.toLowerCase().includes(query.q.toLowerCase())));
  const tab = TABS.find(([name]) => name === query.verdict) ?? (named.some(isDecided) ? TABS[0] : TABS[3]);
  const rows = named.filter(tab[2]);
  const view = query.view === 'heat' || query.view === 'scatter' ? query.view : 'table';
  return (
    <>
      <Summary rows={named} missing={outcome.missing} unlike={query.anyway === '1'} />
      <div class="tabs" role="tablist" aria-label="Which rows">
        {TABS.map((one) => (
          <button key={one[0]} type="button" role="tab" aria-selected={one === tab} onClick={() => change({ verdict: one[0] })}>
            {one[1]} <span class="count">{named.filter(one[2]).length.toLocaleString('en')}</span>
          </button>
        ))}
      </div>
      <div class="bar">
        <label class="choice wide">
          <span>Filter</span>
          <input type="search" value={query.q ?? ''} onInput={(event) => change({ q: (event.target as HTMLInputElement).value })} />
        </label>
        {metrics.length > 1 && <Choice label="Metric" value={query.m ?? ''} options={[['', 'all'], ...metrics.map((name): [string, string] => [name, plain(name)])]} onChange={(m) => change({ m })} />}
        {a.attention === undefined && <Choice label="Show" value={view} options={[['table', 'table'], ['heat', 'heat map'], ['scatter', 'one metric against another']]} onChange={(choice) => change({ view: choice })} />}
        <span class="grow" />
        <Downloads rows={rows} missing={outcome.missing} />
      </div>
      {!all.length && <p class="card calm quiet">The two sides have no case and metric in common.</p>}
      {all.length > 0 && !rows.length && view === 'table' && <p class="card calm quiet">No row is like that.</p>}
      {view === 'table' && rows.length > 0 && <Comparisons rows={rows} several={metrics.length > 1} />}
      {view === 'heat' && a.variant === null && <HeatMap rows={named} />}
      {view === 'heat' && a.variant !== null && <ArmsMap baseline={a} known={known} metric={query.m} />}
      {view === 'scatter' && <Pairs a={a} b={b} query={query} change={change} />}
      {all.length > 0 && <p class="soft">{howSure(all)}</p>}
      <Gone missing={outcome.missing} />
      {a.variant === null && a.attention === undefined && (
        <section class="card">
          <Differences a={a} b={b} heads={heads} />
        </section>
      )}
    </>
  );
}

/** What stands behind the verdicts, in a sentence. */
function howSure(rows: Row[]): string {
  const known = rows.filter((row) => row.between === 'history').length;
  const assumed = rows.filter((row) => row.between === 'assumed').length;
  const parts = [`Worse and better hold for all ${plural(rows.length, 'row')} together (Holm's correction), from 3 % on.`];
  if (known) parts.push(`How sessions differ by themselves is known from the history for ${known === rows.length ? 'all of them' : known.toLocaleString('en')}.`);
  if (assumed) parts.push(`For ${assumed === rows.length ? 'them' : assumed.toLocaleString('en')} it is not known: 1.5 % are allowed for.`);
  return parts.join(' ');
}

function Downloads({ rows, missing }: { rows: Row[]; missing: Missing[] }) {
  return (
    <span class="downloads">
      <span class="soft">Download</span>
      <button type="button" onClick={() => saveCsv('compare', ['case', 'variant', 'metric', 'unit', 'verdict', 'ratio', 'low', 'high', 'p', 'before', 'after'], rows.map((one) => [one.case, one.variant, one.metric, one.unit, one.verdict, one.ratio, one.low, one.high, one.p, one.before, one.after]))}>
        CSV
      </button>
      <button type="button" onClick={() => saveJson('compare', { comparisons: rows, missing })}>
        JSON
      </button>
    </span>
  );
}

export interface MeanOf {
  mean: number;
  low: number;
  high: number;
  count: number;
}

/** The geometric mean of the cost, with the range of the ratios: those of metrics of which more is better are turned round. */
export function meanOf(rows: Row[]): MeanOf | null {
  const logs = rows.filter((row) => row.ratio > 0 && Number.isFinite(row.ratio)).map((row) => Math.log(row.ratio) * (row.direction === 'higher' ? -1 : 1));
  if (!logs.length) return null;
  const mean = Math.exp(logs.reduce((sum, value) => sum + value, 0) / logs.length);
  const reach = logs.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  return { mean, low: Math.exp(reach[0]), high: Math.exp(reach[1]), count: logs.length };
}

function Summary({ rows, missing, unlike }: { rows: Row[]; missing: Missing[]; unlike: boolean }) {
  const count = (verdict: string) => rows.filter((row) => row.verdict === verdict).length;
  const mean = unlike ? null : meanOf(rows);
  const [worse, better, questions] = [count('worse'), count('better'), count('question')];
  return (
    <div class="tiles verdicts">
      <div class={`tile ${worse ? 'worse' : 'calm'}`}>
        <strong>
          <span aria-hidden="true">{worse ? '▲' : '✓'}</span> {worse}
        </strong>{' '}
        <span>worse</span>
      </div>
      <div class={`tile ${better ? 'better' : 'calm'}`}>
        <strong>
          <span aria-hidden="true">▼</span> {better}
        </strong>{' '}
        <span>better{questions > 0 && `, ${questions} too good to believe`}</span>
      </div>
      {mean && (
        <div class="tile calm" title="The geometric mean of the cost: below 1 the candidate is better">
          <strong>{ratio(mean.mean)}</strong> <span>mean cost, {ratio(mean.low)} to {ratio(mean.high)}</span>
        </div>
      )}
      <div class="tile calm">
        <strong>{rows.length.toLocaleString('en')}</strong> <span>compared{missing.length > 0 && `, ${missing.length.toLocaleString('en')} not`}</span>
      </div>
    </div>
  );
}

function Comparisons({ rows, several }: { rows: Row[]; several: boolean }) {
  const reach = Math.min(1, Math.max(0.05, ...rows.slice(0, 400).map((row) => Math.abs(row.ratio - 1)).filter(Number.isFinite)));
  const variants = new Set(rows.map((row) => row.variant)).size > 1;
  return (
    <Table<Row>
      caption="Comparison"
      rows={rows}
      id={(row) => JSON.stringify([row.case, row.variant, row.version, row.metric, row.unit])}
      columns={[
        { name: 'Effect', show: (row) => <Effect verdict={row.verdict} effect={row.ratio - 1} />, sort: (row) => row.ratio, numeric: true, lead: true },
        {
          name: 'Case',
          show: (row) => (
            <>
              <a href={caseLink(row.case, row.metric)}>{named(row.case)}</a> {variants && <span class="soft">{plain(row.variant)}</span>}
              {(row.reason || row.question) && <div class="warning">{plain(row.reason || row.question || '')}</div>}
            </>
          ),
          sort: (row) => row.case,
        },
        ...(several ? [{ name: 'Metric', show: (row: Row) => <span class="metric">{plain(row.metric)}</span>, sort: (row: Row) => row.metric }] : []),
        { name: 'A', show: (row) => quantity(row.before, row.unit), sort: (row) => row.before, numeric: true },
        { name: 'B', show: (row) => quantity(row.after, row.unit), sort: (row) => row.after, numeric: true },
        { name: '95 % interval', show: (row) => <Interval row={row} reach={reach} /> },
        { name: 'Sees from', show: (row) => (Number.isFinite(row.detectable) ? percent(row.detectable) : '–'), sort: (row) => row.detectable, numeric: true },
        { name: 'Records', show: (row) => row.starts.join(' / '), sort: (row) => row.starts[0] + row.starts[1], numeric: true },
      ]}
    />
  );
}

function Interval({ row, reach }: { row: Row; reach: number }) {
  const x = (value: number) => 50 + (Math.max(-reach, Math.min(reach, value - 1)) / reach) * 46;
  const known = Number.isFinite(row.high) && row.low > 0;
  const text = known ? `${percent(row.low - 1)} to ${percent(row.high - 1)}` : 'one number a side: not known';
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

function Gone({ missing }: { missing: Missing[] }) {
  if (!missing.length) return null;
  return (
    <Fold name="missing" class="card" title={`${plural(missing.length, 'case')} of A without numbers in B`}>
      <Table<Missing> name="missing-" caption="Not compared" rows={missing} first={20} id={(row, at) => `${row.case} ${at}`} columns={[{ name: 'Case', show: (row) => <a href={caseLink(row.case)}>{named(row.case)}</a>, sort: (row) => row.case }, { name: 'Why', show: (row) => plain(row.why), sort: (row) => row.why }]} />
    </Fold>
  );
}

/** How the environments of the two differ: of those that are alike, if there are such. */
function Differences({ a, b, heads }: { a: Side; b: Side; heads: Heads }) {
  const common = [...classesOf(a.sessions, heads)].filter((name) => classesOf(b.sessions, heads).has(name));
  const one = (side: Side) => side.sessions.flatMap((session) => session.environments ?? []).find((number) => !common.length || common.includes(heads.get(number)?.[2] ?? ''));
  const [before, after] = [one(a), one(b)];
  return before === undefined || after === undefined ? null : <EnvironmentDiff a={before} b={after} />;
}

function Pairs({ a, b, query, change }: Pick<ResultProps, 'a' | 'b' | 'query' | 'change'>) {
  const { value, error } = useLoaded(() => Promise.all([a, b].map(loadSide)), [a.text, b.text]);
  if (error) return <Failed error={error} />;
  return value ? <Scatter sides={value} names={['baseline', 'candidate']} query={query} change={change} /> : <Loading />;
}

/** All arms of an A/B test beside its baseline, the null arm among them: what it shows is chance. */
function ArmsMap({ baseline, known, metric }: { baseline: Side; known: Known; metric?: string }) {
  const [experiment] = twoOf(baseline.text.slice(2));
  const arms = (experimentsOf(known.sessions).find(([name]) => name === experiment)?.[1] ?? []).filter((arm) => arm !== baseline.variant);
  const sides = arms.map((arm) => sideOf(armSide(experiment, arm), known));
  const { value, error } = useLoaded(async () => {
    const [heads, noises, ...data] = await Promise.all([loadEnvironments(), loadNoises(), ...[baseline, ...sides].map(loadSide)]);
    return sides.map((side, at) => compareSides({ side: baseline, data: data[0] }, { side, data: data[at + 1] }, heads, noises).rows);
  }, [baseline.text]);
  if (error) return <Failed error={error} />;
  if (!value) return <Loading />;
  const names = [...new Set(value.flat().map((one) => one.metric))];
  const shown = metric ?? primary(names.map((name) => ({ name, direction: 'x' })))?.name ?? '';
  const rows = value.flatMap((several, at) => several.filter((one) => one.metric === shown).map((one) => ({ ...one, metric: arms[at] })));
  return (
    <>
      <p class="soft">
        {plain(shown)} of each arm beside {plain(baseline.variant ?? '')}. Runs are not paired here; <code>paceline ab</code> pairs them and sees smaller differences.
      </p>
      <HeatMap rows={rows} />
    </>
  );
}
