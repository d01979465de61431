"""Every schedule of the catalogue as PyTorch's order files: a strict reader takes them, and pipec verifies them."""
import json
import unittest

import support
import torch_format


def catalogue():
    return json.loads(support.tool("pipec", "schedules", "--json").stdout)


class TorchCsv(support.ToolTest):
    def write_spec(self, spec):
        path = self.folder / "spec.yaml"
        path.write_text(spec)
        return path

    def export(self, spec, emit, *arguments, code=support.OK):
        return self.pipec("compile", self.write_spec(spec), f"--emit={emit}", *arguments, code=code)

    def specs(self):
        """Of each schedule several sizes, with each queue model in turn; all of them with PIPEC_SOAK."""
        models = ("per_edge", "per_pair", "shared")
        turn = 0
        for schedule in catalogue():
            for ranks, microbatches in ((1, 2), (2, 4), (4, 8), (3, 9)):
                for more in ("", ", stages_per_rank: 2", ", stages_per_rank: 3"):
                    turn += 1
                    for communicator in models if support.SOAK else (models[turn % 3],):
                        yield schedule["name"], communicator, torch_format.SPEC.format(
                            ranks=ranks, microbatches=microbatches, more=more, schedule=schedule["name"],
                            communicator=communicator)

    def test_every_schedule(self):
        exported = set()
        for name, communicator, spec in self.specs():
            compute = support.tool("pipec", "compile", self.write_spec(spec), "--emit=torch-csv-compute")
            if compute.returncode != support.OK:  # not for so many ranks, microbatches or stages
                continue
            exported.add(name)
            shape = torch_format.check(torch_format.read(compute.stdout))
            for release in ("2.8", "2.10", "2.15"):
                with self.subTest(spec=spec, release=release):
                    text = self.export(spec, "torch-csv", f"--torch={release}").stdout
                    self.assertEqual(torch_format.check(torch_format.read(text, release), release), shape)
                    file = self.folder / "order.csv"
                    file.write_text(text)
                    for model in (communicator, "shared"):
                        found = json.loads(self.pipec("verify", file, "--json", f"--communicator={model}").stdout)
                        self.assertEqual((found["ranks"], found["stages"], found["microbatches"]), shape)
                        if shape[0] > 1:
                            self.assertEqual(found["torch"], release)
        # PyTorch has each stage on one rank.
        self.assertEqual(exported, {schedule["name"] for schedule in catalogue()
                                    if schedule["placement"] != "bidirectional"})

    def test_overlapped_pairs(self):
        spec = torch_format.SPEC.format(ranks=4, microbatches=10, more="", schedule="dualpipe-v", communicator="shared")
        shape = torch_format.check(torch_format.read(self.export(spec, "torch-csv-compute").stdout))
        spec = spec.replace("link:", "overlapped: 25ms, link:", 1)
        for release, pairs in (("2.8", False), ("2.10", True), ("2.15", True)):
            for emit in ("torch-csv", "torch-csv-compute"):
                text = self.export(spec, emit, f"--torch={release}").stdout
                self.assertEqual("OVERLAP_F_B" in text, pairs)
                of = release if emit == "torch-csv" else None
                self.assertEqual(torch_format.check(torch_format.read(text, of), of), shape)

    def test_a_file_takes_no_longer_than_the_plan_that_it_came_from(self):
        """In queues of their own no transfer stands later than the plan has it."""
        spec = """\
pipec: 1
pipeline: {{ranks: 5, microbatches: 5, stages_per_rank: 2}}
costs: {{forward: [400us, 1700us, 1300us, 500us, 500us, 1800us, 1100us, 1300us, 2100us, 600us],
        backward_input: [1700us, 1400us, 200us, 1200us, 1300us, 1800us, 1700us, 300us, 700us, 2700us],
        backward_weight: [1200us, 400us, 1100us, 100us, 900us, 1300us, 2900us, 100us, 2000us, 800us],
        link: {{latency: 3200us}}}}
communicator: {communicator}
schedule: {schedule}
"""
        for communicator in ("per_edge", "per_pair"):
            for schedule in ("v-half", "interleaved-zb", "zb-v", "v-min"):
                written = spec.format(communicator=communicator, schedule=schedule)
                times = [json.loads(self.pipec("report", self.write_spec(written), "--json").stdout)["makespan_ms"]]
                (self.folder / "order.csv").write_text(self.export(written, "torch-csv").stdout)
                again = spec.format(communicator=communicator, schedule="{name: order, file: order.csv}")
                times.append(json.loads(self.pipec("report", self.write_spec(again), "--json").stdout)["makespan_ms"])
                self.assertLessEqual(times[1], times[0], f"{communicator} {schedule}")

    def test_releases(self):
        spec = torch_format.SPEC.format(ranks=2, microbatches=2, more="", schedule="1f1b", communicator="shared")
        texts = {release: self.export(spec, "torch-csv", f"--torch={release}").stdout
                 for release in ("2.8", "2.9", "2.9.1", "2.10", "2.12.1+cpu", "2.14", "2.15", "2.15.0")}
        self.assertEqual(texts["2.8"], texts["2.9"])
        self.assertEqual(texts["2.8"], texts["2.9.1"])
        self.assertEqual(texts["2.10"], texts["2.12.1+cpu"])
        self.assertEqual(texts["2.10"], texts["2.14"])
        self.assertEqual(texts["2.15"], texts["2.15.0"])
        self.assertEqual(texts["2.15"], self.export(spec, "torch-csv").stdout)
        self.assertEqual(len(set(texts.values())), 3)
        for unknown in ("2.7", "2.16", "2.1", "2", "3.0", "2.15x", "newest"):
            done = self.export(spec, "torch-csv", f"--torch={unknown}", code=support.USAGE)
            self.assertIn("expected one from 2.8 to 2.15", done.stderr)
        done = self.export(spec, "perfetto", "--torch=2.8", code=support.USAGE)
        self.assertIn("--torch is for --emit=torch-csv", done.stderr)

    def test_what_the_reader_must_do(self):
        spec = torch_format.SPEC.format(ranks=2, microbatches=4, more="", schedule="zb-v", communicator="per_edge")
        new = self.export(spec, "torch-csv")
        self.assertIn("scale_grads stays True", new.stderr)
        self.assertIn("rank 0: 0, 3; rank 1: 1, 2", new.stderr)
        self.assertIn("PER_EDGE_P2P=1", new.stderr)
        self.assertNotIn("note", new.stdout)
        old = self.export(spec, "torch-csv", "--torch=2.8").stderr
        self.assertIn("pass scale_grads=False and divide the loss by 4", old)
        self.assertIn("_get_init_p2p_neighbors_ops", old)

    def test_the_strict_reader_is_strict(self):
        spec = torch_format.SPEC.format(ranks=2, microbatches=2, more="", schedule="1f1b", communicator="shared")
        text = self.export(spec, "torch-csv").stdout
        for old, new in (("0F1", "0F1x"), ("0SEND_F0,", ""), ("0F0,0SEND_F0", "0SEND_F0,0F0"), ("1RECV_F1", "1RECV_F0"),
                         ("0WAIT_SEND_F0,", ""), ("0REDUCE_GRAD,0WAIT_REDUCE_GRAD", "0WAIT_REDUCE_GRAD"), ("0B1", "0I1"),
                         ("0RESHARD", "0RESHARD,0RESHARD"), ("\n", ",\n")):
            with self.subTest(old=old):
                self.assertIn(old, text)
                with self.assertRaises(torch_format.Wrong):
                    torch_format.check(torch_format.read(text.replace(old, new, 1), "2.15"), "2.15")


if __name__ == "__main__":
    unittest.main()
