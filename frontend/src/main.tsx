// The frame of all pages: head, search, theme, and which page the address means.

import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import './style.css';
import { load, loaded } from './data';
import { useLive } from './live';
import { loadCase, preloadSessions, type Overview } from './model';
import { CasePage } from './pages/case';
import { CasesPage } from './pages/cases';
import { ComparePage } from './pages/compare';
import { HomePage } from './pages/home';
import { IncidentPage } from './pages/incident';
import { ReleasesPage } from './pages/releases';
import { SessionPage } from './pages/session';
import { SessionsPage } from './pages/sessions';
import { parse, useRoute, type Route } from './router';
import { Search } from './search';
import { toggleTheme, useTheme } from './theme';
import { Failed, Loading, setForge } from './ui';

const PAGES = [
  ['', 'Inbox'],
  ['cases', 'Cases'],
  ['sessions', 'Sessions'],
  ['compare', 'Compare'],
  ['releases', 'Releases'],
] as const;
const PARENT: Record<string, string> = { incident: '', case: 'cases', session: 'sessions' };

function App() {
  const route = useRoute();
  const news = useLive();
  const [overview, setOverview] = useState<Overview | undefined>(() => loaded<Overview>('overview'));
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    load<Overview>('overview').then(setOverview, setError);
  }, [news.version]);
  setForge(overview?.forge ?? '');
  const page = route.path[0] ?? '';
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    // Who came here by a key reads on at the content, and not at the foot of the page before.
    if (!isFirst.current) main.current?.focus({ preventScroll: true });
    isFirst.current = false;
  }, [route.path.join('/')]);
  useEffect(() => {
    const open = overview?.totals.open ? `(${overview.totals.open}) ` : '';
    document.title = open + [title(route), overview?.title ?? 'Paceline'].filter(Boolean).join(' · ');
    scrollTo(0, 0);
  }, [route.path.join('/'), overview?.title]);
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the content
      </a>
      <Head page={page} overview={overview} />
      <main id="main" ref={main} tabIndex={-1}>
        {overview ? <Page route={route} overview={overview} version={news.version} running={news.running} /> : error ? <Failed error={error} /> : <Loading />}
      </main>
      <footer>
        {overview && (
          <>
            Paceline {overview.version} · made {overview.made_at.slice(0, 16).replace('T', ' ')} UTC · <a href="feed.xml">feed of regressions</a>
          </>
        )}
      </footer>
    </>
  );
}

function title(route: Route): string {
  const [page, name] = route.path;
  if (page === 'case') return name;
  if (page === 'session') return 'Session';
  if (page === 'incident') return `Incident ${name}`;
  return PAGES.find(([path]) => path === (page ?? ''))?.[1] ?? '';
}

function Head({ page, overview }: { page: string; overview?: Overview }) {
  const now = useTheme();
  const isIn = (path: string) => page === path || PARENT[page] === path;
  return (
    <header>
      <a class="brand" href="#/">
        <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
          <rect width="32" height="32" rx="7" class="brand-box" />
          <path d="M5 21l6-1 5-9 5 7 6-2" class="brand-line" />
        </svg>
        <span>{overview?.title ?? 'Paceline'}</span>
      </a>
      <nav aria-label="Pages">
        {PAGES.filter(([path]) => path !== 'releases' || page === path || overview?.tags.length).map(([path, name]) => (
          <a key={path} href={path ? `#/${path}` : '#/'} aria-current={isIn(path) ? 'page' : undefined}>
            {name}
          </a>
        ))}
      </nav>
      <Search overview={overview} />
      <button type="button" class="theme" onClick={toggleTheme} aria-label={now === 'dark' ? 'Use light colours' : 'Use dark colours'}>
        {now === 'dark' ? '☀' : '☾'}
      </button>
    </header>
  );
}

function Page(props: { route: Route; overview: Overview; version: string; running: import('./live').Running[] }) {
  const { route, overview } = props;
  const [page, name] = route.path;
  if (page === 'case' && name !== undefined) return <CasePage key={name} name={name} route={route} version={props.version} overview={overview} />;
  if (page === 'session' && name !== undefined) return <SessionPage key={name} id={name} route={route} version={props.version} running={props.running} />;
  if (page === 'cases') return <CasesPage route={route} />;
  if (page === 'sessions') return <SessionsPage overview={overview} running={props.running} route={route} />;
  if (page === 'compare') return <ComparePage route={route} overview={overview} />;
  if (page === 'releases') return <ReleasesPage route={route} overview={overview} />;
  if (page === 'incident' && name !== undefined) return <IncidentPage key={name} id={name} route={route} overview={overview} version={props.version} />;
  return <HomePage overview={overview} running={props.running} route={route} />;
}

// A page of a case needs four files: they are asked for at once, before anything is drawn.
const first = parse(location.hash).path;
if (first[0] === 'case' && first[1] !== undefined) {
  void loadCase(first[1]).catch(() => undefined);
  preloadSessions(loaded<Overview>('overview')?.sessions ?? []);
}
export { compareSessions, holm } from './stats'; // what tests ask: the very functions of the page
render(<App />, document.getElementById('app') as HTMLElement);
// Two frames later everything is on the screen; tests and the scale benchmark wait for this.
requestAnimationFrame(() => requestAnimationFrame(() => (document.documentElement.dataset.drawn = '1')));
