// The first page, a queue: what needs somebody, the most urgent first; what broke, by its reason; the last session.

import { useEffect, useRef, useState } from 'preact/hooks';
import { Answer } from '../answer';
import { AGES, chosenOf, choicesOf, FACETS, isNarrowed, narrow, sinceTime, type Narrowed } from '../facets';
import { ago, day, p, percent, plural, quantity } from '../format';
import type { Running } from '../live';
import type { BrokenGroup, Incident, Kind, LastRow, Overview, Session } from '../model';
import { link, useQuery, type Query, type Route } from '../router';
import { Spark } from '../spark';
import { caseLink, CauseText, Choice, CopyLink, Effect, Fold, incidentLink, named, plain, Revision, sessionLink, Status, Strip, Table, type ColumnOf } from '../ui';

interface Show {
  name: string;
  text: string;
  kinds: Kind[];
}

const NEED: Kind[] = ['worse', 'question', 'stopped'];
const SHOWS: Show[] = [
  { name: '', text: 'Needs somebody', kinds: NEED },
  { name: 'better', text: 'Better', kinds: ['better'] },
  { name: 'acknowledged', text: 'Acknowledged', kinds: ['acknowledged'] },
  { name: 'ended', text: 'In series that ended', kinds: ['ended'] },
  { name: 'closed', text: 'Closed', kinds: ['closed'] },
];
const FIRST = 12;

export function HomePage({ overview, running, route }: { overview: Overview; running: Running[]; route: Route }) {
  const [query, change] = useQuery(route);
  if (!overview.counts.records && !running.length) return <Empty />;
  const chosen = chosenOf(query);
  const left = narrow(overview, chosen);
  const show = SHOWS.find((one) => one.name === (query.show ?? '')) ?? SHOWS[0];
  return (
    <>
      <h1 class="hidden">What changed</h1>
      <Tiles overview={overview} left={left} />
      {running.map((one) => (
        <RunningCard key={one.id} running={one} />
      ))}
      <Narrowing overview={overview} query={query} change={change} />
      <div class="tabs" role="tablist" aria-label="Which changes">
        {SHOWS.map((one) => {
          const count = one.kinds.reduce((sum, kind) => sum + (kind === 'worse' ? left.totals.open : left.totals[kind]), 0);
          if (one.name && !count && one !== show) return null;
          return (
            <button key={one.name} type="button" role="tab" aria-selected={one === show} onClick={() => change({ show: one.name || undefined, rows: undefined })}>
              {one.text} <span class="count">{count.toLocaleString('en')}</span>
            </button>
          );
        })}
      </div>
      <Queue overview={overview} lines={left.incidents.filter((one) => show.kinds.includes(one.kind))} rows={Number(query.rows) || FIRST} change={change} calm={show.name ? 'None.' : nothing(overview, isNarrowed(chosen))} />
      {left.totals.incidents > left.incidents.length && <p class="soft">{plural(left.totals.incidents - left.incidents.length, 'incident')} more are counted and not listed: <code>paceline regressions --all</code> has all of them.</p>}
      {overview.unsearched > 0 && overview.counts.sessions > 1 && (
        <p class="soft">
          {plural(overview.unsearched, 'case')} with records that were not searched for changes: <code>paceline regressions</code> does it.
        </p>
      )}
      {left.broken.length > 0 && <BrokenCases groups={left.broken} total={left.totals.broken} overview={overview} />}
      {overview.last && <LastSession last={overview.last} open={left.incidents.length < 4 && !left.broken.length} />}
      <Health overview={overview} />
    </>
  );
}

function nothing(overview: Overview, narrowed: boolean): string {
  if (narrowed) return 'Nothing here: take a choice above back to see the rest.';
  if (overview.unsearched) return 'Nothing known: not all records were searched for changes yet.';
  if (overview.counts.sessions === 1) return 'This is the first session: the next one has something to be held against.';
  if (overview.counts.sessions < FEWEST) return `Too few runs to judge: there are ${overview.counts.sessions} sessions, and a change takes about ${FEWEST} to be seen.`;
  return 'Nothing needs you: no lasting change for the worse that nobody has answered.';
}

/** Sessions before the detector says anything. */
const FEWEST = 6;

function Empty() {
  return (
    <div class="card welcome">
      <h1>No results yet</h1>
      <p>Every session that runs is remembered, and shown here from then on.</p>
      <pre>
        paceline init{'\n'}paceline run{'\n'}paceline dashboard serve
      </pre>
      <p class="soft">With one session you see its cases; with two you can compare; after about a week of nights, changes are found by themselves.</p>
    </div>
  );
}

function Tiles({ overview, left }: { overview: Overview; left: Narrowed }) {
  const { totals } = left;
  const last = overview.sessions.find((one) => one.kind !== 'ab');
  const counts = last?.counts ?? {};
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const passed = counts.passed ?? 0;
  return (
    <div class="tiles">
      <Tile name="open" tone={totals.open ? 'worse' : 'calm'} sign={totals.open ? '▲' : '✓'} value={totals.open} text={totals.open === 1 ? 'open regression' : 'open regressions'} more={totals.recent ? `${totals.recent} of the last 30 days` : totals.open ? `in ${totals.open_findings} series` : ''} />
      <Tile name="broken" tone={totals.broken ? 'worse' : 'calm'} sign={totals.broken ? '✕' : '✓'} value={totals.broken} text={totals.broken === 1 ? 'broken case' : 'broken cases'} more={totals.broken ? plural(left.broken.length, 'reason') : ''} />
      <Tile name="better" tone={totals.better ? 'better' : 'calm'} sign="▼" value={totals.better} text={totals.better === 1 ? 'improvement' : 'improvements'} more="" />
      {last && (
        <a class={`tile ${passed === total ? 'calm' : 'worse'}`} href={sessionLink(last.id)}>
          <strong>
            {passed.toLocaleString('en')}
            <span class="soft"> / {total.toLocaleString('en')}</span>
          </strong>
          <span>
            passed in the last session, {ago(last.started, overview.made_at)} <Revision revision={last.revision} />
          </span>
        </a>
      )}
      <a class="tile calm" href="#/cases">
        <strong>{overview.counts.cases.toLocaleString('en')}</strong>
        <span>
          cases, {overview.counts.records.toLocaleString('en')} records in {plural(overview.counts.sessions, 'session')}
        </span>
      </a>
    </div>
  );
}

function Tile({ name, tone, value, text, sign, more }: { name: string; tone: string; value: number; text: string; sign: string; more: string }) {
  return (
    <div class={`tile ${tone}`} data-total={name}>
      <strong>
        <span aria-hidden="true">{sign}</span> {value.toLocaleString('en')}
      </strong>{' '}
      <span>
        {text} {more && <span class="more-of">{more}</span>}
      </span>
    </div>
  );
}

function Narrowing({ overview, query, change }: { overview: Overview; query: Record<string, string>; change: (changes: Query) => void }) {
  const chosen = chosenOf(query);
  const tags = [...overview.tags].sort((a, b) => b.time.localeCompare(a.time)).slice(0, 12);
  const since: [string, string][] = [['', 'all time'], ...AGES, ...tags.map((tag): [string, string] => [tag.name, `since ${plain(tag.name)}`])];
  if (chosen.since && !since.some(([value]) => value === chosen.since)) since.push([chosen.since, `since ${plain(chosen.since)}`]);
  const wrong = chosen.since && !sinceTime(chosen.since, overview);
  return (
    <div class="bar narrowing">
      <Choice label="Changes of" value={chosen.since ?? ''} options={since} onChange={(value) => change({ since: value, rows: undefined })} />
      {choicesOf(overview).map(([facet, values]) => (
        <Choice key={facet} label={`${facet[0].toUpperCase()}${facet.slice(1)}`} value={chosen[facet] ?? ''} options={[['', 'all'], ...values.map((value): [string, string] => [value, plain(value)])]} onChange={(value) => change({ [facet]: value, rows: undefined })} />
      ))}
      {isNarrowed(chosen) && (
        <button type="button" onClick={() => change(Object.fromEntries(['since', ...FACETS].map((name) => [name, undefined])))}>
          Show all
        </button>
      )}
      {wrong && <span class="warning">no tag, age or date: {plain(chosen.since ?? '')}</span>}
      <span class="grow" />
      <CopyLink />
    </div>
  );
}

function Queue({ overview, lines, rows, change, calm }: { overview: Overview; lines: Incident[]; rows: number; change: (changes: Query) => void; calm: string }) {
  const [at, setAt] = useState(-1);
  const list = useRef<HTMLOListElement>(null);
  const shown = lines.slice(0, rows);
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      const writing = event.target instanceof HTMLElement && (event.target.closest('input, select, textarea, dialog') || event.target.isContentEditable);
      if (writing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === 'j' || event.key === 'k') {
        const next = Math.max(0, Math.min(shown.length - 1, at + (event.key === 'j' ? 1 : -1)));
        setAt(next);
        list.current?.querySelectorAll<HTMLElement>('.line-link')[next]?.focus();
      } else return;
      event.preventDefault();
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, [at, shown.length]);
  if (!lines.length) return <p class="card calm quiet">{calm}</p>;
  return (
    <>
      <ol class="queue" ref={list} aria-label="Incidents, the most urgent first">
        {shown.map((line, place) => (
          <Line key={line.id} line={line} overview={overview} onFocus={() => setAt(place)} />
        ))}
      </ol>
      <div class="bar queue-foot">
        {lines.length > shown.length && (
          <button type="button" onClick={() => change({ rows: rows + 40 })}>
            Show more: first {shown.length} of {lines.length.toLocaleString('en')}
          </button>
        )}
        <span class="soft keys">
          <kbd>j</kbd> <kbd>k</kbd> next and previous, <kbd>Enter</kbd> opens
        </span>
      </div>
    </>
  );
}

function Line({ line, overview, onFocus }: { line: Incident; overview: Overview; onFocus: () => void }) {
  const where = [line.metric, line.name].filter(Boolean).map((text) => plain(text as string));
  return (
    <li class={`line ${line.kind} ${line.verdict}`} data-incident={line.id} data-verdict={line.verdict} data-effect={line.effect} data-change={line.change}>
      <div class="line-size">
        {line.change === 'stopped' ? <span class="effect inconclusive">◼ stopped</span> : line.question ? <span class="effect inconclusive">? {percent(line.effect)}</span> : <Effect verdict={line.verdict} effect={line.effect} />}
        <span class="soft interval">{line.low !== undefined && line.high !== undefined ? `${percent(line.low)} to ${percent(line.high)}` : line.change === 'drift' ? 'little by little' : ''}</span>
      </div>
      <div class="line-what">
        <a class="line-link" href={incidentLink(line.id)} onFocus={onFocus}>
          {named(line.case)}
        </a>
        <span class="soft">
          {where.join(' · ')}
          {line.series > 1 && <b> + {line.series - 1} more series</b>}
        </span>
      </div>
      <div class="line-cause">
        {line.question ? <span class="said-by">{plain(line.question)}</span> : <CauseText cause={line.cause} stage={line.stage} />}
        {line.owner && <span class="owner">{plain(line.owner)}</span>}
      </div>
      <div class="line-chart">{line.values && line.values.length > 1 && <Spark values={line.values} mark={line.at} verdict={line.verdict} width={170} height={34} />}</div>
      <div class="line-age">
        <span title={day(line.when)}>{ago(line.when, overview.newest) || '–'}</span>
        <span class="soft">{certainty(line)}</span>
      </div>
      <Answer id={line.id} state={line.state} />
    </li>
  );
}

/** How sure it is, in words. */
function certainty(line: Incident): string {
  if (line.state !== 'new') return line.state;
  if (line.ended) return `ended ${day(line.ended).slice(0, 7)}`;
  if (line.stage === 'bisected' && line.cause?.probability) return `bisected, ${Math.floor(100 * line.cause.probability)} %`;
  if (line.stage !== 'suspected') return line.stage.replace('_', ' ');
  return line.p_value === undefined ? '' : p(line.p_value);
}

function RunningCard({ running }: { running: Running }) {
  return (
    <a class="card running" href={sessionLink(running.id)}>
      <div>
        <span class="pulse" aria-hidden="true" /> <strong>{plain(running.name)}</strong> is running: {running.done} of {running.planned} cases done
      </div>
      <progress value={running.done} max={running.planned || 1} aria-label={`${running.done} of ${running.planned} cases done`} />
      <div class="soft">{running.current.map((one) => plain(one.case)).join(', ')}</div>
    </a>
  );
}

function BrokenCases({ groups, total, overview }: { groups: BrokenGroup[]; total: number; overview: Overview }) {
  return (
    <section aria-labelledby="broken">
      <h2 id="broken">
        Broken <span class="soft">{plural(total, 'case')}, by reason</span>
      </h2>
      <div class="card groups">
        {groups.slice(0, 8).map((group, at) => {
          const cases = new Set(group.cases.map((one) => one.case)).size;
          const newest = group.cases.reduce((last, one) => (one.first_bad?.started && one.first_bad.started > last ? one.first_bad.started : last), '');
          return (
            <Fold
              key={at}
              name={`broken-${at}`}
              title={
                <>
                  <Status status={group.status} /> <b>{plural(cases, 'case')}</b> <span class="reason">{plain(group.reason) || 'no reason given'}</span> {newest && <span class="soft">last since {ago(newest, overview.newest)}</span>}
                </>
              }
            >
              <Table
                name={`broken-${at}-`}
                caption={`Cases that do not pass: ${group.reason}`}
                rows={group.cases}
                first={20}
                id={(row) => `${row.case}/${row.machine}/${row.variant ?? ''}`}
                columns={[
                  { name: 'Case', show: (row) => <a href={row.first_bad ? sessionLink(row.first_bad.id, row.case) : caseLink(row.case)}>{named(row.case)}</a>, sort: (row) => row.case },
                  { name: 'Machine', show: (row) => plain(row.machine), sort: (row) => row.machine },
                  { name: 'Since', show: (row) => (row.first_bad ? <a href={sessionLink(row.first_bad.id, row.case)}>{ago(row.first_bad.started, overview.newest)}</a> : ''), sort: (row) => row.first_bad?.started ?? '' },
                  { name: 'Last runs', show: (row) => row.strip && <Strip letters={row.strip} /> },
                ]}
              />
            </Fold>
          );
        })}
        {groups.length > 8 && <p class="soft">{plural(groups.length - 8, 'more reason')} with few cases: the last session lists them.</p>}
      </div>
    </section>
  );
}

const LAST_RUNS: ColumnOf<LastRow> = { name: 'Last runs', show: (row) => (row.spark ? <Spark values={row.spark} width={120} height={24} /> : null) };

function LastSession({ last, open }: { last: { session: Session; rows: LastRow[]; more: number }; open: boolean }) {
  return (
    <Fold name="last" start={open} class="card" title={<>Last session: {plain(last.session.name)}</>}>
      <p>
        <a href={sessionLink(last.session.id)}>All of it</a> {last.more > 0 && <span class="soft">{plural(last.more, 'more case')} than below</span>}
      </p>
      <Table
        name="last-"
        caption="The cases of the last session"
        rows={last.rows}
        first={20}
        id={(row, at) => `${row.case}/${row.variant}/${at}`}
        columns={[
          { name: 'Case', show: (row) => <a href={caseLink(row.case, row.metric)}>{named(row.case)}{row.variant && <span class="soft"> {plain(row.variant)}</span>}</a>, sort: (row) => row.case },
          { name: 'Status', show: (row) => <Status status={row.status} reason={row.reason} />, sort: (row) => row.status },
          { name: 'Value', show: (row) => quantity(row.value, row.unit), sort: (row) => row.value ?? NaN, numeric: true },
          ...(last.rows.some((row) => (row.spark?.length ?? 0) > 1) ? [LAST_RUNS] : []),
          { name: 'Metric', show: (row) => <span class="metric">{plain(row.metric)}</span>, sort: (row) => row.metric },
        ]}
      />
    </Fold>
  );
}

const HEALTH: [name: string, text: string, unit: string, tooMuch: number][] = [
  ['load_before', 'load before a run', '', 1],
  ['other_cpu_cores', 'cores used by others', '', 0.5],
  ['cpu_pressure_pct', 'waiting for a CPU', '%', 10],
  ['memory_pressure_pct', 'waiting for memory', '%', 5],
  ['io_pressure_pct', 'waiting for storage', '%', 20],
];

function Health({ overview }: { overview: Overview }) {
  const told = [...overview.sessions].reverse().filter((session) => session.health && Object.keys(session.health).length);
  const shown = HEALTH.filter(([name]) => told.some((session) => session.health?.[name] !== undefined));
  const last = told[told.length - 1];
  if (!shown.length || !last) return null;
  const machines = new Map(overview.environments.map((row) => [row[0], row]));
  const hosts = [...new Set((last.environments ?? []).map((number) => machines.get(number)?.[5]).filter(Boolean))] as string[];
  const busy = shown.filter(([name, , , tooMuch]) => (last.health?.[name] ?? 0) > tooMuch);
  return (
    <Fold name="health" class="card" title={<>Machine health {busy.length > 0 && <span class="busy">⚠ busy: {busy.map(([, text]) => text).join(', ')}</span>}</>}>
      <p class="soft">
        Medians over the runs of each session{hosts.length ? `, now on ${hosts.map(plain).join(', ')}` : ''}. What others do on a machine is noise in your numbers. <a href={link(['sessions'])}>All sessions</a>
      </p>
      <div class="health">
        {shown.map(([name, text, unit, tooMuch]) => {
          const values = told.map((session) => session.health?.[name]).filter((value): value is number => value !== undefined);
          const now = last.health?.[name];
          return (
            <div key={name} class="gauge">
              <div class="soft">{text}</div>
              <strong>{quantity(now, unit)}</strong> {now !== undefined && now > tooMuch && <span class="busy">⚠ busy</span>}
              {values.length > 1 && <Spark values={values} width={150} height={26} />}
            </div>
          );
        })}
      </div>
      <Table<Session>
        name="health-"
        caption="Machine health by session"
        rows={[...told].reverse()}
        first={10}
        id={(row) => row.id}
        columns={[
          { name: 'Session', show: (row) => <a href={sessionLink(row.id)}>{plain(row.name)}</a>, sort: (row) => row.started ?? '' },
          ...shown.map(([name, text, unit]) => ({ name: text, show: (row: Session) => quantity(row.health?.[name], unit), sort: (row: Session) => row.health?.[name] ?? NaN, numeric: true })),
        ]}
      />
    </Fold>
  );
}
