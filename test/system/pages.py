"""Pictures of pages in specs/pictures, taken by a headless Chromium: what --emit=html makes, light and dark.

  pages.py --write    takes those anew that no longer show what the page does (ninja update-gallery)

A machine's fonts are its own, so a picture counts as current while it looks alike: both scaled down eight times, no more
than a fiftieth of the points differ.
"""
import base64
import dataclasses
import pathlib
import sys
import tempfile

import browser
from support import SOURCE, tool

PICTURES = SOURCE / "specs" / "pictures"
SIZE = (1280, 800)
ALIKE = 0.02
LARGE = ["--set", "pipeline.ranks=64", "--set", "pipeline.microbatches=1024", "--set",
         "layers=[{name: block, count: 64, forward: 1ms, backward_input: 1ms, backward_weight: 1ms}]"]


@dataclasses.dataclass(frozen=True)
class Page:
    words: str  # what it shows
    arguments: tuple  # of pipec show
    dark: bool = False


PAGES = {
    "page-v-half-dark": Page("V-Half: eight ranks of two chunks, what each holds, and the critical path", ("specs/v-half.yaml",), True),
    "page-interleaved": Page("Interleaved 1F1B with four chunks a rank",
                             ("specs/interleaved-1f1b.yaml", "--set", "pipeline.stages_per_rank=4")),
    "page-dualpipe": Page("DualPipe: both directions, and the sum of their gradients before the optimizer", ("specs/dualpipe.yaml",)),
    "page-slow-link": Page("1F1B as one slow link would have it: hatched idle time waits for data on their way or for the link",
                           ("specs/1f1b.yaml", "--network", "specs/networks/slow-link.json"), True),
    "page-64x1024": Page("64 ranks and 1,024 microbatches: 131,072 operations, to zoom into", ("specs/gallery.yaml", *LARGE)),
}

LOOK_ALIKE = """
    const image = async (text) => {
      const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
      const one = await createImageBitmap(new Blob([bytes], {type: "image/png"})); // the page allows no image's address
      const canvas = new OffscreenCanvas(Math.ceil(one.width / 8), Math.ceil(one.height / 8));
      const context = canvas.getContext("2d");
      context.imageSmoothingQuality = "high";
      context.drawImage(one, 0, 0, canvas.width, canvas.height);
      return context.getImageData(0, 0, canvas.width, canvas.height);
    };
    const [a, b] = [await image("%s"), await image("%s")];
    if (a.width !== b.width || a.height !== b.height) return 1;
    let other = 0;
    for (let at = 0; at < a.data.length; at += 4)
      if ([0, 1, 2].some((c) => Math.abs(a.data[at + c] - b.data[at + c]) > 40)) ++other;
    return other / (a.width * a.height);"""


def take(chromium, page, folder):
    """The picture's bytes."""
    path = pathlib.Path(folder) / "page.html"
    done = tool("pipec", "show", *page.arguments, "--emit=html", "-o", path, cwd=SOURCE)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    chromium.command("Emulation.setDeviceMetricsOverride", width=SIZE[0], height=SIZE[1], deviceScaleFactor=1, mobile=False)
    chromium.command("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": "dark" if page.dark else "light"}])
    chromium.open(path)
    chromium.wait("await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    picture = pathlib.Path(folder) / "page.png"
    chromium.picture(picture)
    return picture.read_bytes()


def difference(chromium, one, other):
    """The share of points in which two pictures differ, of 0 to 1."""
    return chromium.wait(LOOK_ALIKE % tuple(base64.b64encode(each).decode() for each in (one, other)))


def stale(chromium):
    """name → what the picture should be, of those that are missing or look otherwise."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, page in PAGES.items():
            now, path = take(chromium, page, folder), PICTURES / f"{name}.png"
            if not path.exists() or difference(chromium, now, path.read_bytes()) > ALIKE:
                found[name] = now
    return found


def main():
    if sys.argv[1:] != ["--write"]:
        print(__doc__)
        return 2
    if browser.find() is None:
        print("no chromium and chromedriver here: the pictures of pages stay as they are")
        return 0
    with browser.Browser(*SIZE) as chromium:
        for name, picture in stale(chromium).items():
            (PICTURES / f"{name}.png").write_bytes(picture)
            print(f"wrote specs/pictures/{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
