// The address after the '#': which page, and every choice made on it, so that a link shows the same again.

import { useEffect, useState } from 'preact/hooks';

export interface Route {
  path: string[];
  query: Record<string, string>;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return text;
  }
}

export function parse(hash: string): Route {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const found: Record<string, string> = Object.create(null);
  for (const pair of query.split('&').filter(Boolean)) {
    const [name, value = ''] = pair.split('=', 2);
    found[decode(name)] = decode(value);
  }
  return { path: path.split('/').filter(Boolean).map(decode), query: found };
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export function link(path: string[], query: Query = {}): string {
  const pairs = Object.entries(query)
    .filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false)
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value === true ? '1' : String(value))}`);
  return `#/${path.map(encodeURIComponent).join('/')}${pairs.length ? `?${pairs.join('&')}` : ''}`;
}

const listeners = new Set<() => void>();

/** Change what the page shows; `keep` says whether going back should come by here. */
export function go(address: string, keep = false): void {
  if (keep) history.pushState(null, '', address);
  else history.replaceState(null, '', address);
  listeners.forEach((listener) => listener());
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parse(location.hash));
  useEffect(() => {
    const listener = () => setRoute(parse(location.hash));
    listeners.add(listener);
    addEventListener('hashchange', listener);
    addEventListener('popstate', listener);
    return () => {
      listeners.delete(listener);
      removeEventListener('hashchange', listener);
      removeEventListener('popstate', listener);
    };
  }, []);
  return route;
}

/** What the address says of a choice. It is read where it is drawn: every change of the address draws the page anew. */
export function chosen(name: string): string | undefined {
  return parse(location.hash).query[name];
}

export function choose(changes: Query, keep = false): void {
  const { path, query } = parse(location.hash);
  const address = link(path, { ...query, ...changes });
  if (address !== link(path, query)) go(address, keep);
}

/** What is typed letter by letter; going back does not come by each of them. */
const TYPED = new Set(['q', 'log', 'tags']);

/** The page's choices and a way to change some of them, which going back undoes. */
export function useQuery(route: Route): [Record<string, string>, (changes: Query) => void] {
  return [route.query, (changes) => choose(changes, !Object.keys(changes).some((name) => TYPED.has(name)))];
}
