// The frame of the page: navigation, login, and the page that is shown.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { firstNeeded, login, loginNeeded, setLogin, userName } from "./api/client";
import { loadRights, mayWrite, rights } from "./api/rights";
import { databases } from "./frame/databases";
import { type Part, TopBar } from "./frame/topbar";
import { linkBack, place } from "./location";
import { FirstForm, LoginForm } from "./login";
import icon from "./icon.svg";
import { nextTheme, theme } from "./theme";
import { ConfirmDialog } from "./parts/confirm";
import { ErrorBox } from "./parts/error";

/** A page: its name in links, its title, what it uses of the top bar, and how its code is loaded. */
interface Page {
  name: string;
  title: string;
  uses: readonly Part[];
  load: () => Promise<ComponentType>;
  /** Whether the user may use it; absent: every user may. */
  may?: () => boolean;
  /** It has nothing to show before there are points: then it shows how they come. */
  needsData?: boolean;
}

const pages: Page[] = [
  { name: "explore", title: "Explore", uses: ["database", "policy", "range", "refresh", "zone"], load: async () => (await import("./explore/explore")).Explore, needsData: true },
  { name: "boards", title: "Boards", uses: ["database", "range", "refresh", "zone"], load: async () => (await import("./boards/boards")).Boards },
  { name: "schema", title: "Schema", uses: ["database"], load: async () => (await import("./schema/schema")).Schema, needsData: true },
  { name: "cardinality", title: "Cardinality", uses: ["database"], load: async () => (await import("./cardinality/cardinality")).Cardinality, needsData: true },
  { name: "server", title: "Server", uses: ["zone"], load: async () => (await import("./server/server")).Server },
  { name: "admin", title: "Admin", uses: ["database"], load: async () => (await import("./admin/admin")).Admin, may: mayWrite },
  { name: "write", title: "Write", uses: ["database", "policy"], load: async () => (await import("./write/write")).Write, may: mayWrite },
  { name: "connect", title: "Connect", uses: [], load: async () => (await import("./start/connect")).Connect },
];

export function App() {
  const chosen = pages.find((p) => p.name === place.value.page) ?? pages[0]!;
  const page = chosen.needsData === true && databases.value?.every((name) => name === "_internal") === true && !place.value.params.has("q") ? pages.at(-1)! : chosen;
  useEffect(() => void loadRights(), [userName.value, chosen.name]);
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to the content
      </a>
      <header>
        <strong class="brand"><img src={icon} alt="" width="22" height="22" /> tsdbd</strong>
        <nav aria-label="Pages">
          {pages.filter(allowed).map((p) => (
            <a key={p.name} href={linkBack(p.name)} aria-current={p === page ? "page" : undefined}>
              {p.title}
            </a>
          ))}
        </nav>
        <span class="grow" />
        <button type="button" class="quiet" onClick={nextTheme} title="light, dark, or as the system has it">
          {theme.value === "system" ? "Auto" : theme.value === "light" ? "Light" : "Dark"}
        </button>
        {login.value !== null && (
          <button type="button" class="quiet" onClick={() => setLogin(null)} title={`Forget the login of ${userName.value}`}>
            {userName.value} · Log out
          </button>
        )}
        <TopBar parts={page.uses} />
      </header>
      {firstNeeded.value ? <FirstForm /> : loginNeeded.value && <LoginForm />}
      <ConfirmDialog />
      <main id="main" tabIndex={-1}>
        <h1 class="hidden">{page.title}</h1>
        {allowed(page) && <Loaded key={`${page.name} ${userName.value}`} page={page} />}
        {!allowed(page) && rights.value !== null && <p>The user {userName.value} may not use this view.</p>}
      </main>
    </>
  );
}

/** Whether the user may use a page, as far as that is known. */
function allowed(page: Page): boolean {
  return page.may === undefined || page.may();
}

/** Shows a page when its code has arrived. */
function Loaded({ page }: { page: Page }) {
  const [content, setContent] = useState<{ show: ComponentType } | Error | null>(null);
  useEffect(() => {
    document.title = `${page.title} · tsdbd`;
    page.load().then((show) => setContent({ show }), setContent);
  }, []);
  if (content === null) return null;
  if (content instanceof Error) return <ErrorBox error={content} />;
  return <content.show />;
}
