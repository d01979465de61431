"""The page of a step of 64 ranks and 1,024 microbatches: its size, how long a headless Chromium takes to open it, and the
frames a second while it pans, at several zooms. A measurement, run by hand and by tools/soak; wants a quiet machine.

  PIPEC_BIN=build/release/bin python3 test/bench/page.py
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "test" / "system"))
import browser  # noqa: E402

LARGE = [("1f1b", 1), ("zb-h1", 1), ("interleaved-1f1b", 4)]
SPEC = """
pipec: 1
pipeline: {{ranks: 64, stages_per_rank: {chunks}, microbatches: 1024}}
costs: {{forward: 1ms, backward_input: 1ms, backward_weight: 1ms, optimizer: 3ms, link: {{latency: 10us, bandwidth: 25GB/s}}}}
tensors: {{boundary: 16MiB, activation: 64MiB, weight_context: 16MiB}}
schedule: {schedule}
"""
PAN = """
const {view, paint, frame} = window.pipec, frames = 60, times = [];
view.fit();
view.zoom(%d);
let before = performance.now();
for (let n = 0; n < frames; ++n) {
  view.pan(n < frames / 2 ? 12 : -12);
  paint();
  await new Promise((done) => requestAnimationFrame(done));
  const now = performance.now();
  times.push(now - before);
  before = now;
}
return times;
"""


def measure(folder, schedule, chunks):
    spec, path = folder / "large.yaml", folder / "large.html"
    spec.write_text(SPEC.format(schedule=schedule, chunks=chunks), encoding="utf-8")
    subprocess.run([pathlib.Path(os.environ["PIPEC_BIN"]) / "pipec", "compile", spec, "--emit=html", "-o", path], check=True)
    figures = {"schedule": schedule, "chunks": chunks, "bytes": path.stat().st_size}
    with browser.Browser() as opened:
        opened.open(path)
        figures["boxes"], figures["transfers"] = opened.run(
            "return [window.pipec.frame.boxes.count, window.pipec.frame.transfers.count]")
        figures["open_ms"] = round(float(opened.run("return document.documentElement.dataset.ready")))
        means = {zoom: 1000 * len(times) / sum(times) for zoom in (1, 4, 20, 100)
                 for times in [opened.wait(PAN % zoom)]}
        figures["frames_per_second"] = round(min(means.values()), 1)
        figures["at_zoom"] = {zoom: round(mean, 1) for zoom, mean in means.items()}
    return figures


if __name__ == "__main__":
    if browser.find() is None:
        sys.exit("page.py: no chromium and chromedriver here (tools/setup installs them)")
    with tempfile.TemporaryDirectory(prefix="pipec-page-") as name:
        for each in LARGE:
            print(json.dumps(measure(pathlib.Path(name), *each)), flush=True)
