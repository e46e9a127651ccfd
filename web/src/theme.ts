/** Light, dark, or system theme. `theme-early` applies it before the first paint. */
type Theme = "system" | "light" | "dark";

const KEY = "fivestar-theme";
const ORDER: readonly Theme[] = ["system", "light", "dark"];
const SIGNS: Record<Theme, string> = { system: "◐", light: "☀", dark: "☾" };
const DARK = window.matchMedia("(prefers-color-scheme: dark)");
// Paper is always light.
const PRINT = window.matchMedia("print");
const listeners: (() => void)[] = [];

export function savedTheme(): Theme {
  try {
    const saved = localStorage.getItem(KEY);
    return ORDER.find((theme) => theme === saved) ?? "system";
  } catch {
    return "system"; // storage may be forbidden
  }
}

export function applyTheme(theme: Theme): void {
  const root = document.documentElement;
  if (theme === "system") delete root.dataset["theme"];
  else root.dataset["theme"] = theme;
}

/** Called when colors have changed, to redraw canvases. */
export function onThemeChange(listener: () => void): void {
  listeners.push(listener);
}

export function startThemeButton(button: HTMLButtonElement): void {
  let theme = savedTheme();
  const show = (): void => {
    button.textContent = SIGNS[theme];
    button.setAttribute("aria-label", `Theme: ${theme}. Change it`);
    button.title = `Theme: ${theme}`;
  };
  const tell = (): void => {
    for (const listener of listeners) listener();
  };
  button.addEventListener("click", () => {
    theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length] ?? "system";
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // Storage is blocked: the theme lasts for this visit only.
    }
    applyTheme(theme);
    show();
    tell();
  });
  for (const query of [DARK, PRINT]) query.addEventListener("change", tell);
  show();
}
