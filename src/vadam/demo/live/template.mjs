// The HTML of a figure: picture, playback, table of optimizers, settings.

import { COLOURS } from "./pictures.mjs";
import { METHODS } from "./race.mjs";

// Return a setting as text with at most three significant digits.
export function settingText(value) {
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

export function figureHtml(id, { sliders, columns, exact, defaults }) {
  return `
    <div class="columns"><div class="picture">
      <div class="stage"><canvas role="img" aria-label="Paths of the optimizers; the table has the numbers"></canvas>
        <button type="button" class="start"><span>start</span></button></div>
      <div class="playback">
        <button type="button" class="play">Play</button>
        <button type="button" class="forward">Step</button>
        <button type="button" class="reset">Reset</button>
        <label>Speed <select class="speed"><option value="1">1×</option><option value="5">5×</option>
          <option value="20" selected>20×</option><option value="100">100×</option></select></label>
        <input type="range" class="step" id="${id}-step" aria-label="Step" min="0" max="${defaults.steps}">
        <output class="step-output" for="${id}-step"></output>
      </div>
    </div>
    <div class="panel">
      <table>
        <thead><tr><th scope="col">Optimizer</th>${columns.map((name) => `<th scope="col">${name}</th>`).join("")}</tr></thead>
        <tbody>${Object.keys(METHODS).map((name) => methodRow(id, name, columns)).join("")}
        ${exact(defaults.lam) ? exactRow() : ""}</tbody>
      </table>
      <div class="settings">
        ${slider(id, "alpha", "Learning rate", sliders.alpha, true)}
        ${slider(id, "lam", "Prior precision λ", sliders.lam, true)}
        ${slider(id, "tau", "τ: 1 infers, 0 optimises", [0, 1], false, 0.05)}
        ${slider(id, "M", "Minibatch size M", sliders.M, false, 1)}
        <label class="check"><input type="checkbox" data-setting="anneal"> Lower τ to 0 in the first half</label>
        <div class="row"><label for="${id}-seed">Noise seed</label>
          <input type="number" id="${id}-seed" data-setting="seed" min="0" max="9999" step="1">
          <button type="button" class="defaults">Defaults</button></div>
      </div>
    </div></div>`;
}

function methodRow(id, name, columns) {
  return `<tr><th scope="row"><label><input type="checkbox" checked data-method="${name}">
    <i style="background: ${COLOURS[name]}"></i>${METHODS[name].label}</label></th>
    ${columns.map(() => `<td data-reading="${name}"></td>`).join("")}</tr>`;
}

function exactRow() {
  return `<tr class="exact"><th scope="row"><i style="border-color: ${COLOURS.exact}"></i>Exact mean-field</th><td>0</td></tr>`;
}

function slider(id, setting, label, [low, high], log, step) {
  const range = log
    ? `min="${Math.log10(low)}" max="${Math.log10(high)}" step="any" data-log="true"`
    : `min="${low}" max="${high}" step="${step}"`;
  return `<div class="slider"><label for="${id}-${setting}">${label}</label><output for="${id}-${setting}"></output>
    <input type="range" id="${id}-${setting}" data-setting="${setting}" ${range}></div>`;
}
