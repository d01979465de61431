// Buttons, themes, the size of the window; then the first frame. `window.pipec` is for tests and measurements.

for (const what of Object.keys(show)) element(`show-${what}`).addEventListener("click", () => toggle(what));
element("fit").addEventListener("click", () => {
  view.fit();
  ask();
});
function toggleKeys() {
  const keys = element("keys");
  keys.hidden = !keys.hidden;
  element("help").setAttribute("aria-expanded", String(!keys.hidden));
}
element("help").addEventListener("click", toggleKeys);

const system = matchMedia("(prefers-color-scheme: dark)");
const otherTheme = () => (document.documentElement.dataset.theme === "dark" ? "light" : "dark");
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  painter.readTheme();
  if (frame) fillLegend();
  ask();
}
element("theme").addEventListener("click", () => setTheme(otherTheme()));
system.addEventListener("change", () => setTheme(system.matches ? "dark" : "light"));

function resize() {
  const {clientWidth: width, clientHeight: height} = canvas;
  painter.resize(width, height);
  view.resize(width, height);
  ask();
}
new ResizeObserver(resize).observe(canvas);

window.pipec = {
  data, view, painter, state, words, timings, ready: null,
  get frame() {
    return frame;
  },
  get found() {
    return all;
  },
  markAt, rectOf: (mark) => painter.rectOf(view, mark), show: showFrame, paint,
};
document.documentElement.dataset.theme = system.matches ? "dark" : "light";
painter.readTheme();
resize();
fillMenus();
window.pipec.ready = showFrame(0).then(() => {
  paint();
  document.documentElement.dataset.ready = performance.now();
}, (error) => {
  element("shape").textContent = `this page cannot be shown: ${error.message}`;
  throw error;
});
