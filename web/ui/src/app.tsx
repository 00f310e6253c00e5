// The frame of the page: navigation, login, and the page that is shown.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { login, loginNeeded, setLogin, userName } from "./api/client";
import { type Part, TopBar } from "./frame/topbar";
import { linkBack, place } from "./location";
import { LoginForm } from "./login";
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
}

const pages: Page[] = [
  { name: "explore", title: "Explore", uses: ["database", "policy", "range", "refresh", "zone"], load: async () => (await import("./explore/explore")).Explore },
  { name: "boards", title: "Boards", uses: ["database", "range", "refresh", "zone"], load: async () => (await import("./boards/boards")).Boards },
  { name: "schema", title: "Schema", uses: ["database"], load: async () => (await import("./schema/schema")).Schema },
  { name: "cardinality", title: "Cardinality", uses: ["database"], load: async () => (await import("./cardinality/cardinality")).Cardinality },
  { name: "server", title: "Server", uses: ["zone"], load: async () => (await import("./server/server")).Server },
  { name: "admin", title: "Admin", uses: ["database"], load: async () => (await import("./admin/admin")).Admin },
  { name: "write", title: "Write", uses: ["database", "policy"], load: async () => (await import("./write/write")).Write },
];

export function App() {
  const page = pages.find((p) => p.name === place.value.page) ?? pages[0]!;
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to the content
      </a>
      <header>
        <strong class="brand"><img src={icon} alt="" width="22" height="22" /> tsdbd</strong>
        <nav aria-label="Pages">
          {pages.map((p) => (
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
      {loginNeeded.value && <LoginForm />}
      <ConfirmDialog />
      <main id="main" tabIndex={-1}>
        <h1 class="hidden">{page.title}</h1>
        <Loaded key={`${page.name} ${userName.value}`} page={page} />
      </main>
    </>
  );
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
