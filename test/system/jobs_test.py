"""Background jobs in whole runs: pieces run while ranks wait, a job's error is its own, what the example library computes does
not depend on when it may, and what is refused. How long steps take is for test/bench/jobs.py."""
import json
import unittest

from support import BIN, CHECK, INPUT, RUN, SOURCE, SPECS, USAGE, ToolTest, until

SPEC = """
pipec: 1
pipeline: {{ranks: 4, microbatches: 4}}
costs: {{forward: 10ms, backward: 20ms}}
tensors: {{boundary: 1KiB}}
schedule: 1f1b
jobs:
  slow_down: 5%
  work:
  - {{name: background, samples: {samples}, atoms: {atoms}, atom: {atom}, overhead: 100us, memory: 1MiB, provider: {provider}}}
"""
MLP = BIN / "mlp_job.so"


def spec(samples=8, atoms=16, atom="200us", provider="{}"):
    return SPEC.format(samples=samples, atoms=atoms, atom=atom, provider=provider)


class JobsTest(ToolTest):
    def test_the_memory_of_a_job_is_in_its_ranks_peak(self):
        """In what compile says, and in the reports of the spec and of the plan."""
        text = spec().replace("memory: 1MiB", "memory: MEMORY").replace("ranks: 4", "ranks: 2")
        peaks = {memory: self.report(text.replace("MEMORY", memory))["peak_bytes"] for memory in ("0B", "6GiB")}
        self.assertEqual(peaks["6GiB"], [peak + (6 << 30) for peak in peaks["0B"]])
        plan = self.compile(text.replace("MEMORY", "6GiB"))
        self.assertEqual(json.loads(self.pipec("report", plan, "--json").stdout)["peak_bytes"], peaks["6GiB"])
        says = r"memory +6 GiB   on rank \d; 6 GiB on rank \d; activations at most 0 B, jobs 6 GiB\n"
        self.assertRegex(self.pipec("report", plan).stdout, says)
        compiled = self.pipec("compile", self.folder / "spec.yaml", "-o", plan)
        self.assertRegex(compiled.stdout + compiled.stderr, says)

    def test_pieces_run_while_ranks_wait(self):
        plan = self.compile(spec())
        for pace in ("carry", "naive"):
            run = self.run_json(plan, "--steps", 4, "--emulate", pace)
            self.assertEqual([(job["name"], job["rank"]) for job in run["jobs"]], [("background", rank) for rank in range(4)])
            self.check_jobs(run["jobs"], clocked=pace == "naive")
            for job in run["jobs"][1:]:  # rank 0 hardly waits
                self.assertGreater(job["pieces"], 0, pace)
                self.assertGreater(job["samples"], 0, pace)
        self.assertEqual(self.run_json(plan, "--steps", 2, "--no-jobs")["jobs"], [])
        text = self.piperun(plan, "--local", "--steps", 2).stdout
        self.assertRegex(text, r"job background: \d+ pieces, [\d.]+ samples\n")

    def test_what_fills_a_wait_is_no_more_than_its_window(self):
        """Of rank 1 the window of a step's first pass begins behind a collective, and updates come in its wait."""
        plan = self.compile((SPECS / "dear.yaml").read_text() +
                            "jobs: {slow_down: 50%, work: [{name: a, samples: 8, atoms: 16, atom: 200us, overhead: 100us}]}\n",
                            pipeline__microbatches=6, data_parallel__policy="auto",
                            data_parallel__link__bandwidth="300MB/s")
        self.assertRegex(self.pipec("disasm", plan).stdout, "F stage 1 layer 0 .* window .* ms from .* ms")
        predicted = json.loads(self.pipec("report", plan, "--json").stdout)
        atoms = predicted["jobs"][0]["piece_ms"] / 0.2
        run = self.run_json(plan, "--steps", 6, "--emulate", "carry")
        for job in run["jobs"]:
            most = 6 * predicted["jobs"][0]["pieces"][job["rank"]] * atoms / 16 * 8
            self.assertGreater(job["samples"], 0)
            self.assertLessEqual(job["samples"], most + 1e-6)

    def test_a_trace_has_its_pieces_and_pictures_draw_them(self):
        plan, trace = self.compile(spec()), self.folder / "trace.json"
        self.run_json(plan, "--steps", 3, "--trace", trace)
        pieces = [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") == "job"]
        self.assertEqual({event["args"]["kind"] for event in pieces}, {"job"})
        self.assertGreater(len([event for event in pieces if event["args"]["step"] == 1]), 3)
        lines = self.pipec("show", plan, "--trace", trace, "--step", 1).stdout.splitlines()
        ran = [line for line in lines if line.strip().startswith("run")]
        self.assertEqual(len(ran), 4)
        self.assertTrue(all("/" in line for line in ran[1:]), ran)
        page = self.pipec("show", plan, "--trace", trace, "--emit=html").stdout
        self.assertRegex(page, r'"ran":\[\[\d+,\d+\]')

    def test_both_train_as_they_do_alone_through_swaps_and_a_kill(self):
        log, report = self.folder / "log", self.folder / "report"
        provider = "{hidden: 16, layers: 2, samples: 64, seed: 1, rate: 0.05, report: %s}" % report
        training = {"pipeline__microbatches": 8, "tensors__boundary": "1KiB", "backward": "split",
                    "costs": "{forward: 1ms, backward_input: 1ms, backward_weight: 1ms}",
                    "provider": "{hidden: 16, layers: 2, samples: 16, seed: 1, rate: 0.1, log: %s}" % log,
                    "variants": "[{schedule: 1f1b}, {schedule: gpipe}]"}
        plan = self.compile(spec(samples=32, atoms=8, atom="500us", provider=provider).replace("slow_down: 5%", "slow_down: 80%"),
                            **training)
        stage, job = f"--stage={BIN}/mlp.so", ["--job", f"background={MLP}"]
        states = ["--checkpoint", self.folder / "states", "--every", 20, "--swap-every", 7]
        launcher = self.launch(plan, stage, "--steps", 100_000, *job, *states)[0]
        until((self.folder / "states" / "manifest.json").exists, "a checkpoint")
        launcher.kill()
        launcher.wait()
        steps = json.loads((self.folder / "states" / "manifest.json").read_text())["step"] + 10
        run = self.run_json(plan, stage, "--steps", steps, "--resume", *job, *states)
        self.check_jobs(run["jobs"])
        beside = {line for line in log.read_text().splitlines() if int(line.split(",")[0]) < steps}
        jobs = self.losses(report)
        self.assertGreater(len(jobs), 1)
        log.unlink()
        report.unlink()
        self.run_json(plan, stage, "--steps", steps, "--no-jobs")
        self.assertEqual(beside, set(log.read_text().splitlines()))
        # The job alone: on ranks that only wait for it.
        alone = self.compile(spec(samples=32, atoms=8, atom="500us", provider=provider).replace("slow_down: 5%", "slow_down: 80%"))
        self.run_json(alone, "--steps", 8, *job)
        again = self.losses(report)
        self.assertEqual({each: jobs[each] for each in jobs if each in again}, {each: again[each] for each in again if each in jobs})
        self.assertGreater(len(set(jobs) & set(again)), 1)

    def test_a_plan_without_jobs_has_none(self):
        plan = self.compile("{pipec: 1, pipeline: {ranks: 2, microbatches: 2}, schedule: 1f1b, "
                            "costs: {forward: 1ms, backward: 1ms}}")
        self.assertEqual(self.run_json(plan, "--steps", 2)["jobs"], [])

    def test_they_go_on_through_swaps(self):
        plan = self.compile(spec(), variants="[{schedule: 1f1b}, {schedule: gpipe}]")
        run = self.run_json(plan, "--steps", 6, "--swap-every", 2)
        self.assertEqual(run["swaps"], 2)
        self.assertTrue(all(job["pieces"] > 0 for job in run["jobs"][1:]))

    def test_an_error_is_the_jobs_own(self):
        run = self.piperun(self.compile(spec(provider="{fails: 5}")), "--local", "--steps", 3, "--json")
        self.assertIn("job background: atom 5 fails, as its provider says", run.stderr)
        self.assertIn('"failed":"rank 1: job background: atom 5 fails, as its provider says"', run.stdout)
        self.assertIn('"ended":"done"', run.stdout)

    def test_a_job_that_lies_goes_on_with_fewer_atoms(self):
        """Atoms take five times what is said; time is carried, so that what a piece takes is exact."""
        plan = self.compile(spec(atom="20us", provider="{times: 5}"))
        planned = round(json.loads(self.pipec("report", plan, "--json").stdout)["jobs"][0]["piece_ms"] * 1000 / 20)
        self.assertGreaterEqual(planned, 10)
        run = self.run_json(plan, "--steps", 6, "--emulate", "carry")
        for job in run["jobs"]:
            self.assertIsNone(job["failed"])
            if job["pieces"]:  # the first is as long as planned, then it is known
                self.assertEqual(round(job["samples"] / 8 * 16), planned + (job["pieces"] - 1) * (planned // 5))
        self.assertGreater(run["jobs"][3]["pieces"], 3)

    def test_a_job_whose_atom_is_longer_than_a_piece_rests(self):
        plan = self.compile(spec(provider="{times: 100}"))
        for pace in ("carry", "naive"):
            run = self.piperun(plan, "--local", "--steps", 30, "--emulate", pace, "--json")
            said = json.loads(run.stdout)
            rests = r"job background rests: an atom takes \d+ us, a piece of it may take \d+ us"
            self.assertRegex(run.stderr, rests)
            self.assertRegex(said["jobs"][3]["failed"], rests)
            self.assertEqual(said["jobs"][3]["pieces"], 3, pace)  # the first of many atoms, then two of one
            for job in said["jobs"]:
                self.assertLessEqual(job["pieces"], 3, pace)
                self.assertEqual(job["failed"] is not None, job["pieces"] == 3, pace)
            self.assertEqual((said["ended"], said["steps"]), ("done", 30))

    def test_the_example_trains_beside_real_training(self):
        report = self.folder / "losses"
        provider = "{hidden: 16, layers: 2, samples: 64, seed: 1, rate: 0.05, report: %s}" % report
        plan = self.compile(spec(samples=32, atoms=8, atom="500us", provider=provider))
        run = self.run_json(plan, "--steps", 4, "--job", f"background={MLP}")
        self.check_jobs(run["jobs"])
        self.assertGreater(len(self.losses(report)), 1)

    def losses(self, report):
        """By iteration; on every rank, and in every run, it has the same one to the last digit."""
        losses = {}
        for line in report.read_text(encoding="ascii").splitlines():
            iteration, loss = line.split()
            self.assertEqual(losses.setdefault(int(iteration), loss), loss, f"iteration {iteration}")
        return losses

    def test_a_resumed_run_goes_on_with_them(self):
        report = self.folder / "losses"
        provider = "{hidden: 16, layers: 2, samples: 64, seed: 1, rate: 0.05, report: %s}" % report
        plan = self.compile(spec(samples=32, atoms=8, atom="500us", provider=provider),
                            variants="[{schedule: 1f1b}, {schedule: gpipe}]")
        job = ["--job", f"background={MLP}", "--checkpoint", self.folder / "states", "--every", 2, "--swap-every", 3]
        first = self.launch(plan, "--steps", 100_000, *job)[0]
        until((self.folder / "states" / "manifest.json").exists, "a checkpoint")
        first.kill()
        first.wait()
        manifest = json.loads((self.folder / "states" / "manifest.json").read_text())
        self.assertEqual([each["job"] for each in manifest["jobs"]], ["background"] * 4)
        self.assertGreater(max(each["atoms"] for each in manifest["jobs"]), 0)
        run = self.run_json(plan, "--steps", manifest["step"] + 4, "--resume", *job)
        self.check_jobs(run["jobs"])
        losses = self.losses(report)
        self.assertEqual(sorted(losses), list(range(min(losses), max(losses) + 1)))
        self.assertGreater(len(losses), 2)

    def test_a_damaged_state_ends_the_job_alone(self):
        plan = self.compile(spec())
        folder = self.folder / "states"
        self.run_json(plan, "--steps", 2, "--checkpoint", folder)
        (folder / "step-2-rank-3-job.state").write_text("synthetic job 1\n")
        run = self.run_json(plan, "--steps", 4, "--checkpoint", folder, "--resume")
        self.assertIn("step-2-rank-3-job.state: is not what was saved", run["jobs"][3]["failed"])
        self.assertEqual([each["failed"] for each in run["jobs"][:3]], [None] * 3)
        self.assertEqual((run["ended"], run["steps"]), ("done", 4))

    def test_what_is_refused(self):
        plan = self.compile(spec())
        for arguments, message in (
                (["--job", "background"], "--job: expected NAME=LIB.so or NAME=synthetic, found 'background'"),
                (["--job", "other=synthetic"], "--job: the plan has no job 'other'; it has background"),
                (["--job", "background=synthetic", "--job", "background=synthetic"], "--job: job 'background' is given twice"),
                (["--job", f"background={SOURCE}/README.md"], "README.md: cannot be loaded as a job library"),
                (["--job", f"background={BIN}/mlp.so"], "mlp.so: is not a job library"),
                (["--device", "cuda"], "--device=cuda: jobs do not run on GPUs yet: leave them out with --no-jobs")):
            with self.subTest(arguments=arguments):
                done = self.piperun(plan, "--local", "--steps", 2, *arguments, code=USAGE)
                self.assertIn(message, done.stderr)
        done = self.piperun(self.compile(spec(provider="{hidden: 3}")), "--local", "--steps", 2, "--job",
                            f"background={MLP}", code=RUN)
        self.assertRegex(done.stderr, r"rank \d: job background: provider: layers is missing")
        self.pipec("compile", SPECS / "background.yaml", "-o", self.folder / "none.pipe", "--set", "jobs.slow_down=0.01%", code=CHECK)
        self.pipec("compile", SPECS / "background.yaml", "-o", self.folder / "none.pipe", "--set", "jobs.slow_down=2",
                   code=INPUT)
        self.assertFalse((self.folder / "none.pipe").exists())


if __name__ == "__main__":
    unittest.main()
