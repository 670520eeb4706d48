// The element <vadam-live figure="posterior|landscape">: controls, playback and the picture.

import { COLOURS, drawAxes, drawGaussian, drawPath, View } from "./pictures.mjs";
import { landscapeFigure, posteriorFigure } from "./problems.mjs";
import { METHODS, race } from "./race.mjs";
import { figureHtml, settingText } from "./template.mjs";

const KEY_STEP = 0.02; // share of the window by which an arrow key moves the start

class VadamLive extends HTMLElement {
  connectedCallback() {
    const rows = () => JSON.parse(document.getElementById("vadam-live-rows").textContent);
    this.figure = this.getAttribute("figure") === "posterior" ? posteriorFigure(rows()) : landscapeFigure();
    this.insertAdjacentHTML("beforeend", figureHtml(this.getAttribute("figure"), this.figure));
    this.canvas = this.querySelector("canvas");
    this.handle = this.querySelector(".start");
    this.shown = Object.fromEntries(Object.keys(METHODS).map((name) => [name, true]));
    this.restoreDefaults();
    this.listenToControls();
    this.listenToStart();
    this.listenToPage();
    this.setStep(this.settings.steps);
  }

  restoreDefaults() {
    this.settings = structuredClone(this.figure.defaults);
    for (const input of this.querySelectorAll("[data-setting]")) this.writeInput(input);
    this.change();
  }

  // Run the race again and draw it.
  change() {
    const { problem, exact } = this.figure;
    this.paths = race(problem, this.settings);
    this.exact = exact(this.settings.lam);
    this.backgroundKey = null;
    this.draw();
  }

  setStep(step) {
    this.step = Math.min(Math.max(step, 0), this.settings.steps);
    this.draw();
  }

  play(playing) {
    this.playing = playing;
    this.querySelector(".play").textContent = playing ? "Pause" : "Play";
    if (playing && this.step === this.settings.steps) this.setStep(0);
    const frame = () => {
      if (!this.playing) return;
      this.setStep(this.step + Number(this.querySelector(".speed").value));
      if (this.step === this.settings.steps) this.play(false);
      else requestAnimationFrame(frame);
    };
    if (playing) requestAnimationFrame(frame);
  }

  listenToControls() {
    const soon = afterFrame(() => this.change());
    this.addEventListener("input", ({ target }) => {
      if (target.dataset.setting) {
        this.readInput(target);
        soon();
      } else if (target.dataset.method) {
        this.shown[target.dataset.method] = target.checked;
        this.draw();
      } else if (target.matches(".step")) {
        this.play(false);
        this.setStep(Number(target.value));
      }
    });
    const actions = {
      play: () => this.play(!this.playing),
      forward: () => { this.play(false); this.setStep(this.step + 1); },
      reset: () => { this.play(false); this.setStep(0); },
      defaults: () => this.restoreDefaults(),
    };
    for (const [name, action] of Object.entries(actions)) this.querySelector(`.${name}`).addEventListener("click", action);
  }

  // Move the start by dragging, or by the arrow keys.
  listenToStart() {
    const soon = afterFrame(() => this.change());
    const { x, y } = this.figure.range;
    const clamp = (value, [low, high]) => Math.min(Math.max(value, low), high);
    const move = (point) => {
      this.settings.start = [clamp(point[0], x), clamp(point[1], y)];
      soon();
    };
    this.handle.addEventListener("pointerdown", (event) => {
      this.dragging = true;
      event.preventDefault();
      this.handle.focus({ preventScroll: true });
      if (event.isTrusted) this.handle.setPointerCapture(event.pointerId);
    });
    this.handle.addEventListener("pointermove", (event) => {
      if (!this.dragging) return;
      const box = this.canvas.getBoundingClientRect();
      move(this.view.point([event.clientX - box.left, event.clientY - box.top]));
    });
    for (const end of ["pointerup", "pointercancel"]) this.handle.addEventListener(end, () => { this.dragging = false; });
    const keys = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    this.handle.addEventListener("keydown", (event) => {
      const direction = keys[event.key];
      if (!direction) return;
      event.preventDefault();
      const [a, b] = this.settings.start;
      move([a + direction[0] * KEY_STEP * (x[1] - x[0]), b + direction[1] * KEY_STEP * (y[1] - y[0])]);
    });
  }

  // Draw again when the size or the theme of the page changes.
  listenToPage() {
    const soon = afterFrame(() => this.draw());
    new ResizeObserver(soon).observe(this.querySelector(".stage"));
    new MutationObserver(soon).observe(document.body, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", soon);
  }

  readInput(input) {
    const name = input.dataset.setting;
    if (input.type === "checkbox") this.settings[name] = input.checked;
    else if (input.dataset.log) this.settings[name] = Number((10 ** Number(input.value)).toPrecision(2));
    else this.settings[name] = Number(input.value);
    this.writeOutput(input);
  }

  writeInput(input) {
    const value = this.settings[input.dataset.setting];
    if (input.type === "checkbox") input.checked = value;
    else input.value = input.dataset.log ? Math.log10(value) : value;
    this.writeOutput(input);
  }

  writeOutput(input) {
    if (input.type !== "range") return;
    const text = settingText(this.settings[input.dataset.setting]);
    this.querySelector(`output[for="${input.id}"]`).value = text;
    input.setAttribute("aria-valuetext", text);
  }

  draw() {
    const width = this.querySelector(".stage").clientWidth;
    if (!width || this.step === undefined) return;
    const pixelHeight = Math.round(width * this.figure.shape);
    const density = Math.max(window.devicePixelRatio, 1);
    Object.assign(this.canvas, { width: width * density, height: pixelHeight * density });
    this.canvas.style.height = `${pixelHeight}px`;
    this.view = new View(this.figure.range, width, pixelHeight);
    const context = this.canvas.getContext("2d");
    context.scale(density, density);
    this.drawPicture(context);
    this.placeStart();
    this.showReadings();
  }

  drawPicture(context) {
    const { view, settings } = this;
    const colour = getComputedStyle(this.canvas).color;
    const key = `${colour} ${view.width} ${settings.lam}`;
    if (key !== this.backgroundKey) {
      this.background = this.figure.background(view, colour.match(/\d+/g).map(Number), settings.lam);
      this.backgroundKey = key;
    }
    context.drawImage(this.background, view.left, view.top, view.width, view.height);
    context.save();
    context.beginPath();
    context.rect(view.left, view.top, view.width, view.height);
    context.clip();
    const names = Object.keys(METHODS).filter((name) => this.shown[name]);
    for (const name of names) drawPath(context, view, this.paths[name].mean, this.step, COLOURS[name], this.figure.pathAlpha);
    if (this.exact) drawGaussian(context, view, this.exact.mean, this.exact.precision, COLOURS.exact, { dashed: true });
    for (const name of names) {
      const { mean, precision } = this.paths[name];
      drawGaussian(context, view, mean[this.step], precision[this.step], COLOURS[name]);
    }
    context.restore();
    context.fillStyle = colour;
    drawAxes(context, view, this.figure.ticks);
  }

  placeStart() {
    const [x, y] = this.view.pixel(this.settings.start);
    this.handle.style.transform = `translate(${x}px, ${y}px)`;
    const [a, b] = this.settings.start.map(settingText);
    this.handle.setAttribute("aria-label", `Start of all optimizers: ${a}, ${b}. Drag it, or use the arrow keys.`);
  }

  showReadings() {
    const { step } = this;
    for (const [name, { mean, precision }] of Object.entries(this.paths)) {
      const values = this.figure.readings({ mean: mean[step], precision: precision[step] }, this.exact);
      const cells = this.querySelectorAll(`[data-reading="${name}"]`);
      values.forEach((value, k) => { cells[k].textContent = value; });
    }
    this.querySelector(".step").value = step;
    this.querySelector(".step-output").value = `step ${step}`;
  }
}

// Return a function that runs the action once before the next frame, however often it is called.
function afterFrame(action) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      action();
    });
  };
}

customElements.define("vadam-live", VadamLive);
