/** Asks for the token of the server. It is kept until the tab is closed. */
import { byId } from "./dom";

let pending: Promise<string | null> | null = null;

export function askToken(refused: boolean): Promise<string | null> {
  pending ??= ask(refused).finally(() => {
    pending = null;
  });
  return pending;
}

function ask(refused: boolean): Promise<string | null> {
  const dialog = byId<HTMLDialogElement>("token-dialog");
  const field = byId<HTMLInputElement>("token");
  byId("token-refused").hidden = !refused;
  field.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    const done = new AbortController();
    const { signal } = done;
    byId("token-form").addEventListener(
      "submit",
      (event) => {
        event.preventDefault();
        if (field.value.trim() !== "") dialog.close("given");
      },
      { signal },
    );
    byId("token-cancel").addEventListener("click", () => dialog.close(), { signal });
    dialog.addEventListener(
      "close",
      () => {
        done.abort();
        resolve(dialog.returnValue === "given" ? field.value.trim() : null);
      },
      { signal },
    );
  });
}
