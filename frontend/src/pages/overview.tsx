// The first page: what got worse, better or broke, since when; the last session; how the machines fared.

import { Spark } from '../chart';
import { ago, day, percent, plural, quantity, short, words } from '../format';
import type { Running } from '../live';
import { primary, type Finding, type LastRow, type Overview, type Session, type Suspect } from '../model';
import { link } from '../router';
import { caseLink, Effect, Fold, named, plain, Revision, sessionLink, Status, Strip, Table, type ColumnOf } from '../ui';

export const CLOSED = new Set(['fixed', 'false', 'expected']);
const isOpen = (finding: Finding) => !CLOSED.has(finding.state ?? 'new') && finding.stage !== 'not_reproduced';

export function OverviewPage({ overview, running }: { overview: Overview; running: Running[] }) {
  if (!overview.counts.records && !running.length) return <Empty />;
  const worse = incidents(overview.findings.filter((one) => one.verdict === 'worse' && isOpen(one)));
  const better = incidents(overview.findings.filter((one) => (one.verdict === 'better' || one.question) && isOpen(one)));
  const closed = incidents(overview.findings.filter((one) => !isOpen(one)));
  return (
    <>
      <h1 class="hidden">Overview</h1>
      <Tiles overview={overview} worse={worse.length} better={better.length} />
      {running.map((one) => (
        <RunningCard key={one.id} running={one} />
      ))}
      <section aria-labelledby="worse">
        <h2 id="worse">Got worse</h2>
        {worse.map((incident) => (
          <Incident key={incident.id} incident={incident} overview={overview} />
        ))}
        {!worse.length && <p class="calm">{nothingWorse(overview)}</p>}
        {overview.unsearched > 0 && overview.counts.sessions > 1 && (
          <p class="soft">
            {plural(overview.unsearched, 'case')} with records that were not searched for changes: <code>paceline regressions</code> does it.
          </p>
        )}
        {overview.more_findings > 0 && <p class="soft">{plural(overview.more_findings, 'older change')} are on their cases’ pages.</p>}
      </section>
      {overview.broken.length > 0 && <BrokenCases overview={overview} />}
      {better.length > 0 && (
        <section aria-labelledby="better">
          <h2 id="better">Got better</h2>
          {better.map((incident) => (
            <Incident key={incident.id} incident={incident} overview={overview} />
          ))}
        </section>
      )}
      {overview.last && <LastSession last={overview.last} />}
      <Health overview={overview} />
      {closed.length > 0 && (
        <Fold name="closed" class="closed" title={plural(closed.length, 'closed incident')}>
          {closed.map((incident) => (
            <Incident key={incident.id} incident={incident} overview={overview} />
          ))}
        </Fold>
      )}
    </>
  );
}

function nothingWorse(overview: Overview): string {
  if (overview.counts.sessions === 1) return 'This is the first session: the next one has something to be held against.';
  return overview.unsearched ? 'Nothing known: not all records were searched for changes yet.' : 'Nothing. All is as fast as it was.';
}

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

function Tiles({ overview, worse, better }: { overview: Overview; worse: number; better: number }) {
  const last = overview.sessions.find((one) => one.kind !== 'ab');
  const counts = last?.counts ?? {};
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const passed = counts.passed ?? 0;
  return (
    <div class="tiles">
      <Tile tone={worse ? 'worse' : 'calm'} value={worse} text={worse === 1 ? 'open regression' : 'open regressions'} sign={worse ? '▲' : '✓'} />
      <Tile tone={overview.broken.length ? 'worse' : 'calm'} value={overview.broken.length} text={overview.broken.length === 1 ? 'broken case' : 'broken cases'} sign={overview.broken.length ? '✕' : '✓'} />
      <Tile tone={better ? 'better' : 'calm'} value={better} text={better === 1 ? 'improvement' : 'improvements'} sign="▼" />
      {last && (
        <a class={`tile ${passed === total ? 'calm' : 'worse'}`} href={sessionLink(last.id)}>
          <strong>
            {passed}
            <span class="soft"> / {total}</span>
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

function Tile({ tone, value, text, sign }: { tone: string; value: number; text: string; sign: string }) {
  return (
    <div class={`tile ${tone}`}>
      <strong>
        <span aria-hidden="true">{sign}</span> {value}
      </strong>
      <span>{text}</span>
    </div>
  );
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

interface Grouped {
  id: string;
  findings: Finding[];
}

function incidents(findings: Finding[]): Grouped[] {
  const found = new Map<string, Finding[]>();
  for (const finding of findings) {
    const id = finding.incident || finding.id;
    found.set(id, [...(found.get(id) ?? []), finding]);
  }
  const size = (one: Finding) => Math.abs(Math.log1p(Math.max(one.effect ?? 0, -0.999)));
  const grouped = [...found].map(([id, several]) => ({ id, findings: several.sort((a, b) => size(b) - size(a)) }));
  const known = (one: Grouped) => Number((one.findings[0].state ?? 'new') !== 'new');
  return grouped.sort((a, b) => known(a) - known(b));
}

const MOST_SHOWN = 5;

function Incident({ incident, overview }: { incident: Grouped; overview: Overview }) {
  const first = incident.findings[0];
  const good = first.last_good;
  const bad = first.first_bad;
  const shown = telling(incident.findings).slice(0, MOST_SHOWN);
  const others = incident.findings.filter((finding) => !shown.includes(finding));
  return (
    <article class={`card incident ${first.verdict}`} id={`incident-${incident.id}`}>
      <div class="incident-head">
        <Standing finding={first} />
        <span>
          since <strong>{day(bad?.time)}</strong> <span class="soft">({ago(bad?.time, overview.made_at)})</span>
        </span>
        {good?.revision && bad?.revision && good.revision !== bad.revision && (
          <span class="soft">
            <Revision revision={good.revision} /> → <Revision revision={bad.revision} />
          </span>
        )}
        <span class="soft">{plural(incident.findings.length, 'series').replace(/seriess$/, 'series')}</span>
      </div>
      <Changes findings={shown} overview={overview} />
      {others.length > 0 && (
        <Fold name={`more-${incident.id}`} class="others" title={`${others.length} more`}>
          <Changes findings={others} overview={overview} />
        </Fold>
      )}
      <Causes findings={incident.findings} />
      {first.question && <p class="said">{plain(first.question)}</p>}
      {first.said && (
        <p class="said">
          <strong>{plain(first.said.who)}</strong> said “{words(first.said.state)}”{first.said.why && <>: {plain(first.said.why)}</>}
        </p>
      )}
    </article>
  );
}

/** Of each case the change that says most: a metric of its own rather than one that all runs have. */
function telling(findings: Finding[]): Finding[] {
  const found = new Map<string, Finding>();
  for (const finding of findings) {
    const known = found.get(finding.case);
    if (!known || primary([{ ...known, name: known.metric, direction: 'x' }, { ...finding, name: finding.metric, direction: 'x' }])?.metric !== known.metric) found.set(finding.case, finding);
  }
  return [...found.values()];
}

function Changes({ findings, overview }: { findings: Finding[]; overview: Overview }) {
  const hosts = new Map(overview.environments.map((row) => [row[2], row[5]]));
  const several = hosts.size > 1;
  return (
    <ul class="changes">
      {findings.map((finding) => (
        <li key={finding.id}>
          <a href={caseLink(finding.case, finding.metric, { f: finding.id })} class="case-name">
            {named(finding.case)}
          </a>
          <span class="metric">
            {plain(finding.metric)}
            {several && hosts.get(finding.environment_class ?? '') && ` · ${plain(hosts.get(finding.environment_class ?? '') as string)}`}
          </span>
          <Effect verdict={finding.verdict} effect={finding.effect} />
          <span class="soft interval">
            95 %: {percent(finding.low)} to {percent(finding.high)}
          </span>
          {finding.spark && <Spark values={finding.spark.values} mark={finding.spark.sessions.indexOf(finding.first_bad?.session ?? '')} verdict={finding.verdict} width={220} height={38} />}
        </li>
      ))}
    </ul>
  );
}

/** What became of a finding, and how far it was followed up. */
export function Standing({ finding }: { finding: Finding }) {
  const state = finding.state ?? 'new';
  const stage = finding.stage ?? 'suspected';
  return (
    <>
      {!(state === 'new' && stage === 'not_reproduced') && <span class={`state ${state}`}>{words(state)}</span>}{' '}
      {stage !== 'suspected' && <span class="state stage">{words(stage)}</span>}
    </>
  );
}

/** The culprit with how sure that is, once there is one; else what may be the cause. */
export function Causes({ findings }: { findings: Finding[] }) {
  const culprit = findings.find((one) => one.culprit)?.culprit;
  if (!culprit) return findings[0].stage === 'not_reproduced' ? null : <Suspects suspects={findings[0].suspects ?? []} />;
  const sure = typeof culprit.probability === 'number' ? `${(100 * culprit.probability).toFixed(culprit.probability > 0.99 ? 1 : 0)} % sure` : 'not known how surely';
  return (
    <div class="suspects culprit">
      <strong>Culprit</strong>
      <span>
        {suspectText(culprit)} · {sure}
        {typeof culprit.runs === 'number' && <span class="soft"> after {plural(culprit.runs, 'run')}</span>}
      </span>
    </div>
  );
}

function Suspects({ suspects }: { suspects: Suspect[] }) {
  if (!suspects.length) return null;
  return (
    <div class="suspects">
      <span class="soft">Suspects</span>
      <ul>
        {suspects.slice(0, 8).map((suspect, at) => (
          <li key={at}>{suspectText(suspect)}</li>
        ))}
        {suspects.length > 8 && <li class="soft">and {suspects.length - 8} more</li>}
      </ul>
    </div>
  );
}

function suspectText(suspect: Suspect) {
  const text = (name: string) => plain(suspect[name] === null || suspect[name] === undefined ? 'none' : String(suspect[name]));
  if (suspect.kind === 'commit')
    return (
      <>
        <code>{short(text('revision'))}</code> {text('subject')} {suspect.author && <span class="soft">{text('author')}</span>}
      </>
    );
  if (suspect.kind === 'commits')
    return (
      <>
        commits <code>{short(text('from'))}</code> … <code>{short(text('to'))}</code>
      </>
    );
  if (suspect.kind === 'package')
    return (
      <>
        <code>{text('name')}</code> {text('before')} → {text('after')}
      </>
    );
  if (suspect.kind === 'packages') return <>{text('count')} more packages</>;
  if (suspect.kind === 'source') return <>the test’s own source changed</>;
  if (!('before' in suspect)) return <>{text(suspect.subject ? 'subject' : 'name')}</>;
  return (
    <>
      {text('name')}: {text('before')} → {text('after')}
    </>
  );
}

function BrokenCases({ overview }: { overview: Overview }) {
  return (
    <section aria-labelledby="broken">
      <h2 id="broken">Broken</h2>
      <Table
        name="broken-"
        caption="Cases whose last run did not pass"
        rows={overview.broken}
        id={(row) => row.case}
        columns={[
          { name: 'Case', show: (row) => <a href={caseLink(row.case)}>{named(row.case)}</a>, sort: (row) => row.case },
          { name: 'Status', show: (row) => <Status status={row.status} reason={row.reason} />, sort: (row) => row.status },
          {
            name: 'Since',
            show: (row) => (
              <>
                <a href={sessionLink(row.first_bad.id, row.case)}>{day(row.first_bad.started)}</a> <span class="soft">{row.last_good ? plural(row.runs, 'run') : 'never passed'}</span>
              </>
            ),
            sort: (row) => row.first_bad.started ?? '',
          },
          { name: 'Last runs', show: (row) => <Strip letters={row.strip} /> },
          { name: 'Reason', show: (row) => <span class="reason">{plain(row.reason)}</span> },
        ]}
      />
    </section>
  );
}

const LAST_RUNS: ColumnOf<LastRow> = { name: 'Last runs', show: (row) => (row.spark ? <Spark values={row.spark} width={120} height={24} /> : null) };

function LastSession({ last }: { last: { session: Session; rows: LastRow[]; more: number } }) {
  return (
    <section aria-labelledby="last">
      <h2 id="last">
        Last session: <a href={sessionLink(last.session.id)}>{plain(last.session.name)}</a>
      </h2>
      <Table
        name="last-"
        caption="The cases of the last session"
        rows={last.rows}
        first={40}
        id={(row, at) => `${row.case}/${row.variant}/${at}`}
        columns={[
          { name: 'Case', show: (row) => <a href={caseLink(row.case, row.metric)}>{named(row.case)}{row.variant && <span class="soft"> {plain(row.variant)}</span>}</a>, sort: (row) => row.case },
          { name: 'Status', show: (row) => <Status status={row.status} reason={row.reason} />, sort: (row) => row.status },
          { name: 'Metric', show: (row) => <span class="metric">{plain(row.metric)}</span>, sort: (row) => row.metric },
          { name: 'Value', show: (row) => quantity(row.value, row.unit), sort: (row) => row.value ?? NaN, numeric: true },
          ...(last.rows.some((row) => (row.spark?.length ?? 0) > 1) ? [LAST_RUNS] : []),
          { name: 'Time', show: (row) => quantity(row.seconds, 's'), sort: (row) => row.seconds ?? NaN, numeric: true },
        ]}
      />
      {last.more > 0 && (
        <p>
          <a href={sessionLink(last.session.id)}>{plural(last.more, 'more case')}</a>
        </p>
      )}
    </section>
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
  return (
    <section aria-labelledby="health">
      <h2 id="health">Machine health</h2>
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
      <Fold name="health" title="Table of machine health">
        <Table<Session>
          name="health-"
          caption="Machine health by session"
          rows={[...told].reverse()}
          first={20}
          id={(row) => row.id}
          columns={[
            { name: 'Session', show: (row) => <a href={sessionLink(row.id)}>{plain(row.name)}</a>, sort: (row) => row.started ?? '' },
            ...shown.map(([name, text, unit]) => ({ name: text, show: (row: Session) => quantity(row.health?.[name], unit), sort: (row: Session) => row.health?.[name] ?? NaN, numeric: true })),
          ]}
        />
      </Fold>
    </section>
  );
}
