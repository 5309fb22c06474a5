// Loading and decoding of data files: scripts that hand over a JSON text, since a page on disk may load nothing else.

type Handed = [name: string, text: string];
interface Inbox {
  push(...items: Handed[]): number;
}

const arrived = new Map<string, unknown>();
const waiting = new Map<string, Promise<unknown>>();
const takers = new Map<string, (value: unknown) => void>();

function take(item: Handed): void {
  const [name, text] = item;
  const value: unknown = JSON.parse(text);
  arrived.set(name, value);
  takers.get(name)?.(value);
  takers.delete(name);
}

const scope = self as unknown as { paceline?: Handed[] | Inbox };
const early = Array.isArray(scope.paceline) ? scope.paceline : [];
scope.paceline = {
  push(...items) {
    items.forEach(take);
    return items.length;
  },
};
early.forEach(take);

type Early = HTMLScriptElement & { failed?: boolean };

/** A file that public/early.js has asked for and that is still on its way. */
function takeEarly(name: string): Early | undefined {
  const asked = (self as unknown as { pacelineEarly?: Record<string, Early> }).pacelineEarly;
  const found = asked?.[name];
  if (asked) delete asked[name];
  return found?.failed ? undefined : found;
}

// An address may be made by anybody: only what can be a data file is ever asked for, since it is run as a script.
const KNOWN =
  /^(overview|search|(sessions|heads|environment|source)\/\d{1,10}|(case\/[0-9a-f]{16}(-old)?|incident\/[0-9a-f]{16})|(session|evals)\/[0-9a-f]{32}|files\/[0-9a-f]{32}\/\d{1,9})$/;

/** The value of a data file; loaded once, unless `fresh` asks for it again. */
export function load<T>(name: string, fresh = false): Promise<T> {
  if (!KNOWN.test(name)) return Promise.reject(new Error('The address names nothing that this site has.'));
  if (!fresh && arrived.has(name)) return Promise.resolve(arrived.get(name) as T);
  const known = waiting.get(name);
  if (known) return known as Promise<T>;
  const promise = new Promise<unknown>((resolve, reject) => {
    takers.set(name, resolve);
    const early = fresh ? undefined : takeEarly(name);
    const script = early ?? document.createElement('script');
    script.onerror = () => {
      takers.delete(name);
      reject(new Error(`data/${name}.js could not be loaded`));
    };
    script.onload = () => {
      script.remove();
      if (takers.has(name)) reject(new Error(`data/${name}.js holds something else`));
    };
    if (early) return;
    script.src = `data/${name.split('/').map(encodeURIComponent).join('/')}.js${fresh ? `?at=${Date.now()}` : ''}`;
    document.head.append(script);
  }).finally(() => waiting.delete(name));
  waiting.set(name, promise);
  return promise as Promise<T>;
}

/** What was loaded already, for a first drawing without waiting. */
export function loaded<T>(name: string): T | undefined {
  return arrived.get(name) as T | undefined;
}

/** Forget what a live server may tell differently now. */
export function forget(prefix: string): void {
  for (const name of [...arrived.keys()]) if (name.startsWith(prefix)) arrived.delete(name);
}

/** FNV-1a of the UTF-8 bytes, 64 bits: the name of a case's file. */
export function fileId(text: string): string {
  let digest = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text)) {
    digest = BigInt.asUintN(64, (digest ^ BigInt(byte)) * 0x100000001b3n);
  }
  return digest.toString(16).padStart(16, '0');
}

export type Packed = null | number | { i?: string; f?: string; h?: string; x?: string };

type Decoder = { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> };

export function bytes(text: string): ArrayBuffer {
  const { fromBase64 } = Uint8Array as Decoder; // newer browsers do in one go what takes the loop milliseconds
  if (fromBase64) return fromBase64(text).buffer;
  const binary = atob(text);
  const array = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) array[i] = binary.charCodeAt(i);
  return array.buffer;
}

/** A column of `n` numbers; NaN where there is none. */
export function numbers(packed: Packed | undefined, n: number): Float64Array {
  const out = new Float64Array(n);
  if (packed === null || packed === undefined) return out.fill(NaN);
  if (typeof packed === 'number') return out.fill(packed);
  const values = packed.i
    ? new Int32Array(bytes(packed.i))
    : packed.h
      ? new Float32Array(bytes(packed.h))
      : new Float64Array(bytes(packed.f ?? ''));
  if (!packed.x) {
    out.set(values.subarray(0, n));
    return out;
  }
  out.fill(NaN);
  const places = new Int32Array(bytes(packed.x));
  for (let i = 0; i < places.length; i++) out[places[i]] = values[i];
  return out;
}

/** A column whose length is only known from itself. */
export function list(packed: Packed | undefined): Float64Array {
  if (packed === null || packed === undefined) return new Float64Array(0);
  if (typeof packed === 'number') return new Float64Array([packed]);
  if (packed.i) return Float64Array.from(new Int32Array(bytes(packed.i)));
  if (packed.h) return Float64Array.from(new Float32Array(bytes(packed.h)));
  return new Float64Array(bytes(packed.f ?? ''));
}
