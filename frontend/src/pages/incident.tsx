// One incident: the cause first, the chart opened at the change, who is affected, how environments differ, what was said.

import { useMemo } from 'preact/hooks';
import { Answer } from '../answer';
import { CaseChart, pinnedOf, type Loaded } from '../case_chart';
import { around, labelOfFinding, makePlot } from '../case_plot';
import { ago, day, moment, p, percent, plural, quantity, share } from '../format';
import { loadCase, loadEnvironments, loadIncident, loadSessions, ordered, type Cause, type Finding, type IncidentFile, type Overview } from '../model';
import { EnvironmentDiff, PointCompare } from '../point_compare';
import { useQuery, type Query, type Route } from '../router';
import { Spark } from '../spark';
import { caseLink, CauseText, CopyButton, Effect, Failed, Fold, incidentLink, Loading, logLink, named, plain, Revision, Standing, Table, useLoaded } from '../ui';

export function IncidentPage({ id, route, overview, version }: { id: string; route: Route; overview: Overview; version: string }) {
  const [query, change] = useQuery(route);
  const { value, error } = useLoaded(() => loadIncident(id), [id, version]);
  if (error) return <Failed error={error} />;
  if (!value) return <Loading />;
  const chosen = value.findings.find((one) => one.id === query.f) ?? value.findings[0];
  return (
    <>
      <Head incident={value} chosen={chosen} overview={overview} />
      <Causes incident={value} />
      <FindingChart key={`${chosen.case} ${version}`} finding={chosen} query={query} change={change} overview={overview} />
      {value.findings.length > 1 && <Affected incident={value} chosen={chosen} />}
      <Closer finding={chosen} overview={overview} />
    </>
  );
}

function Head({ incident, chosen, overview }: { incident: IncidentFile; chosen: Finding; overview: Overview }) {
  const said = incident.findings.find((one) => one.said)?.said;
  return (
    <div class={`incident-head ${chosen.verdict}`}>
      <h1>
        {chosen.kind === 'stopped' ? <span class="effect inconclusive">◼ stopped</span> : <Effect verdict={chosen.verdict} effect={chosen.effect} />} <a href={caseLink(chosen.case, chosen.metric, { f: chosen.id })}>{named(chosen.case)}</a>
      </h1>
      <p class="facts">
        <span>
          {plain(chosen.metric)}
          {chosen.series_name && <b> {plain(chosen.series_name)}</b>}
        </span>
        {chosen.low !== undefined && chosen.high !== undefined && (
          <span class="soft">
            95 %: {percent(chosen.low)} to {percent(chosen.high)}
          </span>
        )}
        {chosen.p_value !== undefined && <span class="soft">{p(chosen.p_value)}</span>}
        <Standing finding={chosen} />
        <span>
          since <b>{day(chosen.first_bad?.committed || chosen.first_bad?.time)}</b> <span class="soft">{ago(chosen.first_bad?.committed || chosen.first_bad?.time, overview.newest)}</span>
        </span>
        {chosen.ended && <span class="soft">its series has had no result since {day(chosen.ended)}</span>}
        {incident.owner && <span class="owner">{plain(incident.owner)}</span>}
        <Answer id={incident.id} state={incident.state} />
      </p>
      {chosen.question && <p class="said">{plain(chosen.question)}</p>}
      {said && (
        <p class="said">
          <strong>{plain(said.who) || 'somebody'}</strong> said “{plain(said.state)}” on {day(said.at)}
          {said.why && <>: {plain(said.why)}</>}
        </p>
      )}
    </div>
  );
}

const MOST_SUSPECTS = 8;

function Causes({ incident }: { incident: IncidentFile }) {
  const { culprit } = incident;
  const cause = culprit && (
    <div class="card culprit-card">
      <h2>Culprit</h2>
      <p class="cause-line">
        <CauseText cause={culprit} stage="culprit" /> {culprit.author && <span class="owner">{plain(culprit.author)}</span>}
      </p>
      <p class="soft">
        {culprit.probability === undefined ? 'how surely is not known' : `${share(culprit.probability, 3)} sure`}
        {culprit.runs !== undefined && ` after ${plural(culprit.runs, 'run')} of a bisection`}
        {culprit.time && ` · ${moment(culprit.time)}`}
      </p>
      {incident.bisection && incident.bisection.length > 0 && <Bisection incident={incident} culprit={culprit} />}
    </div>
  );
  const suspects = culprit ? [] : incident.suspects;
  return (
    <>
      {cause}
      {suspects.length > 0 && (
        <div class="card">
          <h2>
            {suspects.length === 1 ? 'Suspect' : 'Suspects'} <span class="soft">{suspects.length > 1 && suspects.length.toLocaleString('en')}</span>
          </h2>
          <ul class="causes">
            {suspects.slice(0, MOST_SUSPECTS).map((one, at) => (
              <SuspectRow key={at} cause={one} />
            ))}
          </ul>
          {suspects.length > MOST_SUSPECTS && (
            <Fold name="suspects" title={`${suspects.length - MOST_SUSPECTS} more`}>
              <ul class="causes">
                {suspects.slice(MOST_SUSPECTS).map((one, at) => (
                  <SuspectRow key={at} cause={one} />
                ))}
              </ul>
            </Fold>
          )}
        </div>
      )}
    </>
  );
}

function SuspectRow({ cause }: { cause: Cause }) {
  return (
    <li>
      <CauseText cause={cause} stage="suspected" /> {cause.author && <span class="owner">{plain(cause.author)}</span>} {cause.time && <span class="soft">{day(cause.time)}</span>}
    </li>
  );
}

/** The revisions that were tried, from the good end to the bad one. */
function Bisection({ incident, culprit }: { incident: IncidentFile; culprit: Cause }) {
  const tested = incident.bisection ?? [];
  return (
    <Fold name="bisection" title={`${plural(tested.length, 'revision')} tried`} start={tested.length < 12}>
      <Table
        name="bisection-"
        caption="Revisions that the bisection tried"
        rows={tested}
        id={(row) => row.revision}
        chosen={(row) => row.revision === culprit.revision}
        columns={[
          { name: 'Revision', show: (row) => <><Revision revision={row.revision} /> {plain(row.title)}</> },
          { name: 'Mean', show: (row) => quantity(row.mean, incident.unit), numeric: true },
          { name: 'Runs', show: (row) => row.values.length, numeric: true },
          { name: 'Values', show: (row) => (row.values.length > 1 ? <Spark values={row.values} width={90} height={22} /> : plain(row.reason)) },
          { name: 'Chance to be it', show: (row) => (row.probability === null ? '–' : share(row.probability, 2)), numeric: true },
        ]}
      />
    </Fold>
  );
}

interface ChartProps {
  finding: Finding;
  query: Record<string, string>;
  change: (changes: Query) => void;
  overview: Overview;
}

async function loadFor(finding: Finding): Promise<Loaded> {
  const [data, environments] = await Promise.all([loadCase(finding.case), loadEnvironments()]);
  return { data, environments, sessions: await loadSessions(new Set(data.session), 'heads') };
}

function FindingChart({ finding, query, change, overview }: ChartProps) {
  const { value, error } = useLoaded(() => loadFor(finding), [finding.case]);
  if (error) return <Failed error={error} />;
  if (!value) return <Loading />;
  return <Drawn finding={finding} loaded={value} query={query} change={change} overview={overview} />;
}

function Drawn({ finding, loaded, query, change, overview }: ChartProps & { loaded: Loaded }) {
  const { data, sessions, environments } = loaded;
  const metric = data.metrics.find((one) => one.name === finding.metric && one.unit === (finding.unit ?? '')) ?? data.metrics.find((one) => one.name === finding.metric);
  const only = metric ? labelOfFinding(finding, data, metric.name) : '';
  const time = query.x === 'time';
  const plot = useMemo(
    () => (metric ? makePlot([{ data, column: metric, places: ordered(data, sessions) }], { sessions, environments, tags: overview.tags, time, band: true, only, finding: finding.id }) : null),
    [data, metric, finding.id, time],
  );
  const pinned = useMemo(() => (plot ? pinnedOf(plot, query) : []), [plot, query.a, query.b]);
  if (!plot || !metric) return null;
  const chosen = plot.changes.find((one) => one.chosen);
  return (
    <>
      <CaseChart plot={plot} metric={metric} loaded={loaded} query={query} change={change} start={chosen ? around(plot, chosen, only) : {}} />
      {pinned.length > 0 && <PointCompare plot={plot} metric={metric} loaded={loaded} pinned={pinned} onClear={() => change({ a: undefined, b: undefined })} />}
    </>
  );
}

function Affected({ incident, chosen }: { incident: IncidentFile; chosen: Finding }) {
  const cases = new Set(incident.findings.map((one) => one.case)).size;
  return (
    <section aria-labelledby="affected">
      <h2 id="affected">
        Affected{' '}
        <span class="soft">
          {incident.findings.length.toLocaleString('en')} series of {plural(cases, 'case')}
        </span>
      </h2>
      <Table<Finding>
        name="affected-"
        caption="The series of this incident"
        rows={incident.findings}
        first={10}
        id={(row) => row.id}
        chosen={(row) => row.id === chosen.id}
        columns={[
          { name: 'Change', show: (row) => <Effect verdict={row.verdict} effect={row.effect} />, sort: (row) => Math.abs(row.effect ?? 0), lead: true },
          { name: 'Case', show: (row) => <a href={incidentLink(incident.id, row.id)}>{named(row.case)}</a>, sort: (row) => row.case },
          { name: 'Metric', show: (row) => <span class="metric">{plain(row.metric)}</span>, sort: (row) => row.metric },
          { name: 'Series', show: (row) => plain(row.series_name ?? ''), sort: (row) => row.series_name ?? '' },
          { name: 'Since', show: (row) => <span class="when">{day(row.first_bad?.committed || row.first_bad?.time)}</span>, sort: (row) => row.first_bad?.committed || row.first_bad?.time || '' },
          { name: 'State', show: (row) => <Standing finding={row} /> },
        ]}
      />
    </section>
  );
}

function Closer({ finding, overview }: { finding: Finding; overview: Overview }) {
  const number = (ident: string | undefined) => overview.environments.find((row) => row[1] === ident)?.[0];
  const [a, b] = [number(finding.last_good?.environment), number(finding.first_bad?.environment)];
  const [good, bad] = [finding.last_good, finding.first_bad];
  const commands = [`paceline regressions ${finding.incident || finding.id}`, ...(good?.session && bad?.session ? [`paceline compare ${good.session} ${bad.session} --case '${finding.case}'`] : []), ...(good?.revision && bad?.revision && good.revision !== bad.revision ? [`paceline bisect --regression ${finding.id}`] : [])];
  return (
    <section class="card" aria-labelledby="reproduce">
      <h2 id="reproduce">Look closer</h2>
      <p>
        {bad?.session_id && <a href={logLink(bad.session_id, finding.case, finding.variant ?? '')}>First bad run: log, files and profile</a>} {good?.session_id && <a href={logLink(good.session_id, finding.case, finding.variant ?? '')}>last good run</a>}
      </p>
      {a !== undefined && b !== undefined && <EnvironmentDiff a={a} b={b} />}
      {commands.map((command) => (
        <div key={command} class="command">
          <code>{plain(command)}</code> <CopyButton text={() => command} label="Copy" />
        </div>
      ))}
    </section>
  );
}
