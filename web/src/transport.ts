/** Play, pause and scrub: how far the points are along the flow, s from 0 to 1. */
import { CALM, h } from "./dom";
import { decimal } from "./text";

/** Milliseconds from s = 0 to s = 1. */
const DURATION = 4000;
const STEPS = 100;

export class Transport {
  private readonly button = h("button", {
    type: "button",
    class: "button primary play",
    onclick: () => (this.isPlaying ? this.pause() : this.play()),
  });
  private readonly slider = h("input", {
    id: "progress",
    type: "range",
    min: 0,
    max: STEPS,
    oninput: () => {
      const s = Number(this.slider.value) / STEPS;
      this.stop();
      this.set(s);
    },
    onchange: () => this.onRest(this.s),
  });
  // Not a live region, which would be read aloud all the time: the slider has the same text.
  private readonly output = h("span", { class: "figure", "aria-hidden": "true" });
  private s = 0;
  private frame = 0;
  readonly element = h(
    "div",
    { class: "transport" },
    this.button,
    h("label", { for: "progress" }, "Progress of the map"),
    this.slider,
    this.output,
  );

  constructor(
    /** Called with every new s. */
    private readonly onMove: (s: number) => void,
    /** Called when s stays as it is: paused, at the end, or released. */
    private readonly onRest: (s: number) => void,
  ) {
    this.draw();
  }

  get isPlaying(): boolean {
    return this.frame !== 0;
  }

  /** Go to s without playing. */
  show(s: number): void {
    if (this.isPlaying) return;
    this.set(s);
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.draw();
  }

  private play(): void {
    if (this.s >= 1) this.set(0);
    if (CALM.matches) {
      this.set(1);
      this.onRest(1);
      return;
    }
    let last = performance.now();
    const step = (now: number): void => {
      this.frame = requestAnimationFrame(step);
      this.set(Math.min(1, this.s + (now - last) / DURATION));
      last = now;
      if (this.s >= 1) this.pause();
    };
    this.frame = requestAnimationFrame(step);
    this.draw();
  }

  private pause(): void {
    this.stop();
    this.onRest(this.s);
  }

  private set(s: number): void {
    this.s = s;
    this.draw();
    this.onMove(s);
  }

  private draw(): void {
    this.button.textContent = this.isPlaying ? "Pause" : "Play";
    this.slider.value = String(Math.round(this.s * STEPS));
    this.slider.setAttribute("aria-valuetext", `s = ${decimal(this.s)}`);
    this.output.textContent = `s = ${decimal(this.s)}`;
  }
}
