// News from a live server; a site on disk has none.

import { useEffect, useState } from 'preact/hooks';
import { forget } from './data';

export interface Running {
  id: string;
  name: string;
  started: string;
  planned: number;
  done: number;
  current: { case: string; started: string }[];
}

export interface News {
  version: string;
  running: Running[];
}

const EVERY_MS = 1500;

export function useLive(): News {
  const [news, setNews] = useState<News>({ version: '', running: [] });
  useEffect(() => {
    if (document.body.dataset.live !== '1') return;
    let last: News | null = null;
    let timer = 0;
    const ask = async () => {
      try {
        const answer = await fetch('live.json');
        const fresh = (await answer.json()) as News;
        if (last && last.version !== fresh.version) forget('');
        if (JSON.stringify(last) !== JSON.stringify(fresh)) setNews(fresh);
        last = fresh;
      } catch {
        // the server has gone; what is shown stays
      }
      timer = window.setTimeout(ask, EVERY_MS);
    };
    void ask();
    return () => clearTimeout(timer);
  }, []);
  return news;
}
