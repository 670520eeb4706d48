"use strict";

/* The ledger: one verdict, one artefact. */
{
  const rows = [...document.querySelectorAll("#claims tbody tr")];
  const buttons = [...document.querySelectorAll(".filters button")];
  const artefact = document.getElementById("artefact");
  const shown = document.getElementById("shown");
  let verdict = "all";

  const apply = () => {
    let count = 0;
    for (const row of rows) {
      row.hidden =
        (verdict !== "all" && row.dataset.verdict !== verdict) ||
        (artefact.value !== "all" && row.dataset.artefact !== artefact.value);
      count += row.hidden ? 0 : 1;
    }
    shown.textContent = count;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.verdict === verdict));
  };

  for (const button of buttons) button.addEventListener("click", () => { verdict = button.dataset.verdict; apply(); });
  artefact.addEventListener("change", apply);
  apply(); // a browser that comes back to the page keeps what was chosen in the list
}

/* The paths of variational optimisation, step by step. */
for (const player of document.querySelectorAll(".player")) {
  const data = JSON.parse(player.querySelector("script").textContent);
  const canvas = player.querySelector("canvas");
  const slider = player.querySelector("input");
  const output = player.querySelector("output");
  const button = player.querySelector("button");
  const pen = canvas.getContext("2d");
  const last = data.variational.length - 1;
  const background = new Image();
  let timer = null;

  const draw = () => {
    const size = Math.max(1, Math.round(canvas.clientWidth * (window.devicePixelRatio || 1)));
    if (canvas.width !== size) { canvas.width = size; canvas.height = size; }
    const frame = Number(slider.value);
    const unit = size / (2 * data.limit);
    const place = ([x, y]) => [(x + data.limit) * unit, (data.limit - y) * unit];
    pen.imageSmoothingEnabled = true;
    pen.drawImage(background, 0, 0, size, size);
    pen.lineJoin = "round";
    data.colours.forEach((colour, k) => {
      const line = (points, style, width, dash) => {
        pen.beginPath();
        for (let i = 0; i <= frame; i++) pen.lineTo(...place(points[i][k]));
        pen.strokeStyle = style;
        pen.lineWidth = (width * size) / 480;
        pen.setLineDash(dash.map((d) => (d * size) / 480));
        pen.stroke();
        pen.setLineDash([]);
      };
      line(data.variational, colour, 2, []);
      line(data.descent, "#000000", 2, [2, 4]);
      const [x, y] = place(data.variational[frame][k]);
      const [sx, sy] = data.stddev[frame][k];
      pen.beginPath();
      pen.ellipse(x, y, sx * unit, sy * unit, 0, 0, 2 * Math.PI);
      pen.globalAlpha = 0.16;
      pen.fillStyle = colour;
      pen.fill();
      pen.globalAlpha = 1;
      pen.beginPath();
      pen.arc(x, y, (4.5 * size) / 480, 0, 2 * Math.PI);
      pen.fill();
      pen.beginPath();
      pen.arc(...place(data.descent[frame][k]), (3.5 * size) / 480, 0, 2 * Math.PI);
      pen.fillStyle = "#000000";
      pen.fill();
    });
    const tau = Math.max(0, 1 - frame / ((last + 1) * data.annealed_until));
    output.textContent = `step ${frame * data.every}, τ = ${tau.toFixed(2)}`;
  };

  const stop = () => { clearInterval(timer); timer = null; button.textContent = "Play"; };
  const play = () => {
    if (Number(slider.value) >= last) slider.value = 0;
    button.textContent = "Pause";
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      draw();
      if (Number(slider.value) >= last) stop();
    }, 40);
  };

  button.addEventListener("click", () => (timer ? stop() : play()));
  slider.addEventListener("input", () => { stop(); draw(); });
  window.addEventListener("resize", draw);
  background.addEventListener("load", () => { slider.value = last; draw(); });
  background.src = data.landscape;
}
