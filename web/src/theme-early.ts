/** Runs before the first paint, so that a dark page does not flash white. */
import { applyTheme, savedTheme } from "./theme";

applyTheme(savedTheme());
