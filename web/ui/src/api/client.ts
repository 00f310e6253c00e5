// Requests to the server, with the login of this tab.

import { computed, signal } from "@preact/signals";

/** A user and the password, kept in this tab only. */
export interface Login {
  user: string;
  password: string;
}

const key = "tsdbd-login";

/** The login that requests carry; null: none. */
export const login = signal<Login | null>(stored());

/** True while the server refuses requests for want of a login. */
export const loginNeeded = signal(false);

/** True while the server requires logins and has no administrator yet. */
export const firstNeeded = signal(false);

/** The name of the user, or "". */
export const userName = computed(() => login.value?.user ?? "");

function stored(): Login | null {
  const text = globalThis.sessionStorage?.getItem(key) ?? null; // tests have no browser
  return text === null ? null : (JSON.parse(text) as Login);
}

/** Sets the login of this tab, or with null forgets it. */
export function setLogin(to: Login | null): void {
  if (to === null) sessionStorage.removeItem(key);
  else sessionStorage.setItem(key, JSON.stringify(to));
  login.value = to;
  loginNeeded.value = firstNeeded.value = false;
}

/** An answer that is not a success. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    text: string,
    /** The whole answer, if it is JSON. */
    readonly document?: unknown,
  ) {
    super(text);
  }
}

/** The URL of a path of the API. The page may be behind a prefix of a proxy. */
export function urlOf(path: string, params: Record<string, string> = {}): string {
  const url = new URL(path.replace(/^\//, ""), new URL(".", location.href));
  for (const [name, value] of Object.entries(params)) if (value !== "") url.searchParams.set(name, value);
  return url.href;
}

export interface RequestOptions {
  method?: string;
  params?: Record<string, string>;
  form?: Record<string, string>;
  body?: BodyInit;
  headers?: Record<string, string>;
  /** A login to try in place of that of the tab. */
  as?: Login;
  signal?: AbortSignal;
}

/**
 * Sends a request. It throws an ApiError with the server's own text unless the
 * answer is a success, and a TypeError if there is no answer.
 */
export async function request(path: string, options: RequestOptions = {}): Promise<Response> {
  const headers: Record<string, string> = { ...options.headers };
  const user = options.as ?? login.value;
  if (user !== null) headers.Authorization = "Basic " + base64(`${user.user}:${user.password}`);
  const body = options.form === undefined ? options.body : new URLSearchParams(options.form);
  const answer = await fetch(urlOf(path, options.params), {
    method: options.method ?? (body === undefined ? "GET" : "POST"),
    headers,
    body,
    signal: options.signal,
    // The browser must neither add a login of its own nor ask for one.
    credentials: "omit",
    cache: "no-store",
  });
  if (answer.ok) return answer;
  if (answer.status === 401) loginNeeded.value = true;
  const error = await errorOf(answer);
  if (error.status === 403 && error.message.includes("create admin user first")) firstNeeded.value = true;
  throw error;
}

async function errorOf(answer: Response): Promise<ApiError> {
  const text = await answer.text();
  try {
    const document = JSON.parse(text) as { error?: unknown };
    if (typeof document.error === "string") return new ApiError(answer.status, document.error, document);
  } catch {
    // The answer is not JSON.
  }
  return new ApiError(answer.status, text.trim() || `${answer.status} ${answer.statusText}`);
}

function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
