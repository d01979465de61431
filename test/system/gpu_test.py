"""Plans on GPUs, where there is none: piperun --device=cuda beside the stand-in (test/standin), which takes the place of
CUDA's driver and holds piperun to its rules. With PIPEC_SOAK all that can go wrong goes wrong, and times are strict."""
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

import stranger_test
from support import BIN, CHECK, HANG, OK, RUN, SOAK, SOURCE, SPECS, USAGE, ToolTest, free_port, sets
from timing import judge

STANDIN = pathlib.Path(os.environ.get("PIPEC_PROBES", SOURCE / "build/dev/test/conformance")).parent / "standin"
FUNCTIONS = re.findall(r"X\((cu\w+),", (SOURCE / "runtime/device/cuda/CudaFunctions.h").read_text())
NCCL = re.findall(r"X\((nccl\w+),", (SOURCE / "runtime/transport/nccl/NcclFunctions.h").read_text())
LINK = {"costs__link": "{latency: 100us, bandwidth: 1.25GB/s}", "tensors__boundary": "64KiB"}
# What the host may not do between the first and the last step, since it would wait or allocate.
FORBIDDEN = [name for name in FUNCTIONS + NCCL
             if re.search(r"Alloc|Free|Memset|Memcpy.to|Module|Ipc|Create|Init|Id$|Abort", name)]
SIX = ["1f1b", "gpipe", "zb-h1", "interleaved-1f1b", "zb-v", "v-half"]


class GpuTest(ToolTest):
    def cuda(self, plan, *arguments, code=OK, devices=8, standin="", library=STANDIN, **options):
        """A run beside the stand-in."""
        environment = {**os.environ, "LD_LIBRARY_PATH": str(library),
                       "PIPEC_STANDIN": f"devices={devices} latency=100us bandwidth=1.25GB/s {standin}"}
        return self.piperun(plan, "--local", "--device=cuda", *arguments, code=code, env=environment, **options)

    def run_cuda(self, plan, *arguments, **options):
        return json.loads(self.cuda(plan, "--json", *arguments, **options).stdout)

    def logs(self, name):
        return [path.read_text().split() for path in self.folder.glob(f"{name}.*")]

    def during_steps(self, log):
        """The calls from the first instruction to the last."""
        last = len(log) - 1 - log[::-1].index("cuLaunchKernel")
        return log[log.index("cuLaunchKernel"):last]


class ScheduleTest(GpuTest):
    def test_the_transport_that_nobody_named(self):
        plan = self.compile(SPECS / "1f1b.yaml", **LINK)
        self.addCleanup(os.environ.pop, "CUDA_VISIBLE_DEVICES", None)
        for visible, transport, communicator in [("0", "ipc", "per_edge"), ("0,1,2,3", "nccl", "launch_order")]:
            os.environ["CUDA_VISIBLE_DEVICES"] = visible
            run = self.run_cuda(plan, "--steps", 2)
            self.assertEqual((run["transport"], run["communicator"]), (transport, communicator))

    def test_every_operation_runs_once_and_when_it_was_predicted(self):
        for n, schedule in enumerate(SIX):
            for ranks, transport in [(4, "ipc"), (8, "ipc"), (4, "nccl"), (8, "nccl")]:
                if not SOAK and (transport == "nccl") == (ranks == 8) and n % 2:
                    continue
                with self.subTest(schedule=schedule, ranks=ranks, transport=transport):
                    spec = SPECS / f"{schedule}.yaml"
                    settings = {"pipeline__ranks": ranks, "pipeline__microbatches": 2 * ranks, "memory__limit": "64GiB", "schedule": schedule, **LINK}
                    plan = self.compile(spec, **settings)
                    trace, expected = self.folder / "trace.json", self.folder / "predicted.json"
                    steps = 100 if SOAK else 3
                    run = self.run_cuda(plan, "--steps", steps, "--trace", trace, "--transport", transport)
                    self.assertEqual((run["device"], run["transport"], run["steps"]), ("cuda", transport, steps))
                    self.pipec("compile", spec, "-o", expected, "--emit=perfetto", *sets(settings))
                    self.check_same(json.loads(trace.read_text()), json.loads(expected.read_text()), steps)
                    for measured, predicted in zip(run["step_ms"], run["simulated_step_ms"], strict=True):
                        self.assertGreater(measured, predicted * 0.999)
                    longer = sum(run["step_ms"]) / sum(run["simulated_step_ms"]) - 1
                    judge(self, f"{schedule} on {ranks} ranks, {transport}", longer, 0.02)

    def check_same(self, real, predicted, steps):
        """Every instruction of every step is in the trace, once."""
        expected = self.complete_events(predicted, 0)
        self.assertEqual(set(expected.values()), {1})
        for step in range(steps):
            self.assertEqual(self.complete_events(real, step), expected)

    def test_swaps_wait_for_nothing(self):
        plan = self.compile(SPECS / "kfkb-variants.yaml", **LINK)
        steps = 1001 if SOAK else 60
        for transport in ("ipc", "nccl"):
            with self.subTest(transport=transport):
                run = self.run_cuda(plan, "--steps", steps, "--swap-every", 1, "--transport", transport,
                                    standin=f"log={self.folder}/{transport}")
                self.assertEqual(run["swaps"], steps - 1)
                logs = self.logs(transport)
                self.assertEqual(len(logs), 4)  # of the ranks: who launches them calls nothing of CUDA's
                for log in logs:
                    calls = collections.Counter(self.during_steps(log))
                    self.assertGreater(calls["cuLaunchKernel"], 8 * steps)
                    self.assertEqual([name for name in FORBIDDEN if calls[name]], [])

    def test_a_run_goes_on_from_a_checkpoint(self):
        plan = self.compile(SPECS / "1f1b.yaml", **LINK)
        states = self.folder / "states"
        self.assertEqual(self.run_cuda(plan, "--steps", 4, "--checkpoint", states, "--every", 2)["checkpoint_step"], 4)
        run = self.run_cuda(plan, "--steps", 7, "--checkpoint", states, "--resume")
        self.assertEqual((run["first_step"], run["steps"]), (4, 7))
        self.assertEqual(len(run["step_ms"]), 3)

    def test_the_norm_of_all_gradients(self):
        plan = self.compile(SPECS / "1f1b.yaml", costs__optimizer="{time: 100us, global_norm: true}", **LINK)
        for transport in ("ipc", "nccl"):  # a rank that has another sum ends the run
            self.assertEqual(self.run_cuda(plan, "--steps", 5, "--transport", transport)["steps"], 5)

    def test_shared_weights_are_summed_over_nccl(self):
        plan = self.compile("""
pipec: 1
pipeline: {ranks: 3, microbatches: 4}
costs: {forward: 1ms, backward: 2ms, link: {latency: 50us, bandwidth: 1GB/s}}
tensors: {boundary: 4KiB}
schedule: 1f1b
shared: [{layers: [0, 2], gradients: 40kB}, {layers: [0, 1, 2], gradients: 12kB}]
""")
        self.assertEqual(self.run_cuda(plan, "--steps", 4, "--transport", "nccl")["steps"], 4)
        done = self.cuda(plan, "--transport", "ipc", code=USAGE)
        self.assertIn("--transport=ipc has no sums of weights that ranks share yet", done.stderr)

    def test_replicas_exchange_over_nccl(self):
        spec = """
pipec: 1
pipeline: {ranks: 1, microbatches: 2}
layers: [{count: 6, forward: 200us, backward_input: 200us, backward_weight: 200us, gradients: 100kB, optimizer: 50us}]
schedule: gpipe
data_parallel: {degree: 3, costs: {all_reduce: {start: 100us, bandwidth: 1GB/s}}, %s}
"""
        for ranks, degree, way in ((1, 3, "policy: ddp"), (1, 3, "collective: decoupled, fusion: none"), (2, 2, "policy: ddp")):
            given = spec.replace("ranks: 1", f"ranks: {ranks}").replace("degree: 3", f"degree: {degree}")
            plan = self.compile((given % way).replace("gradients:", "boundary: 2KiB, gradients:"))
            run = self.run_cuda(plan, "--steps", 5, "--transport", "nccl")
            self.assertEqual((run["ranks"], run["degree"], run["processes"], run["steps"]), (ranks, degree, ranks * degree, 5))
        done = self.cuda(plan, "--transport", "ipc", code=USAGE)
        self.assertIn("--transport=ipc has no collectives between replicas yet", done.stderr)

    def test_ranks_that_share_a_gpu(self):
        plan = self.compile(SPECS / "1f1b.yaml", **LINK)
        self.assertEqual(self.run_cuda(plan, "--steps", 3, devices=1)["steps"], 3)


class TrainingTest(GpuTest):
    """specs/stages/mlp on streams: it trains to the last bit as it does on the host."""

    SPEC = """
pipec: 1
pipeline: {ranks: %d, microbatches: 8}
layers: [{count: 8, forward: 200us, backward_input: 200us, backward_weight: 200us, boundary: 16KiB}]
costs: {optimizer: {time: 100us, global_norm: true}}
schedule: %s
backward: split
provider: {hidden: 64, samples: 64, seed: 3, rate: 0.05, log: %s}
"""

    def weights(self, ranks, schedule, run, *arguments):
        """What each layer's stage logged."""
        log = self.folder / "log.csv"
        log.unlink(missing_ok=True)
        plan = self.compile(self.SPEC % (ranks, schedule, log))
        run(plan, "--steps", 6, f"--stage={BIN / 'mlp.so'}", *arguments)
        return sorted(log.read_text().splitlines())

    def on_host(self, plan, *arguments):
        self.piperun(plan, "--local", *arguments)

    def test_weights_are_those_of_the_host_to_the_last_bit(self):
        for ranks, schedule in [(1, "gpipe"), (2, "zb-h1"), (4, "1f1b"), (4, "zb-h1"), (8, "gpipe")]:
            with self.subTest(ranks=ranks, schedule=schedule):
                host = self.weights(ranks, schedule, self.on_host)
                self.assertEqual(len(host), 6 * ranks)
                for transport in ("ipc", "nccl"):
                    self.assertEqual(self.weights(ranks, schedule, self.cuda, "--transport", transport), host)
        # However it is cut and scheduled, the loss is the same.
        losses = {tuple(line.split(",")[3] for line in self.weights(ranks, schedule, self.cuda) if line.split(",")[3])
                  for ranks, schedule in [(1, "gpipe"), (2, "zb-h1"), (4, "1f1b")]}
        self.assertEqual(len(losses), 1)

    def test_a_resumed_run_goes_on_to_the_last_bit(self):
        whole = self.weights(2, "1f1b", self.cuda)
        states = self.folder / "states"

        def in_two(plan, steps, number, *arguments):
            self.cuda(plan, steps, number // 2, *arguments, "--checkpoint", states)
            self.cuda(plan, steps, number, *arguments, "--checkpoint", states, "--resume")

        self.assertEqual(self.weights(2, "1f1b", in_two), whole)

    def test_what_goes_wrong_in_a_stage_is_said(self):
        plan = self.compile(self.SPEC.replace("0.05", "1e30") % (2, "1f1b", self.folder / "log.csv"))
        done = self.cuda(plan, "--steps", 20, f"--stage={BIN / 'mlp.so'}", code=RUN)
        self.assertIn("the loss is not finite in step", done.stderr)


class RefusedTest(GpuTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile(SPECS / "1f1b.yaml", **LINK)

    def refuses(self, expected, *arguments, code=RUN, **options):
        begin = time.monotonic()
        done = self.cuda(self.plan, *arguments, code=code, **options)
        self.assertIn(expected, done.stderr)
        if SOAK:
            self.assertLess(time.monotonic() - begin, 2)
        return done

    def test_no_driver(self):
        done = self.refuses("--device=cuda: libcuda.so.1 12.3 or newer is needed: ", library=self.folder)
        self.assertIn("cannot open shared object file", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)  # of all ranks

    def test_a_driver_that_lacks_a_function(self):
        empty = self.folder / "libcuda.so.1"
        subprocess.run(["cc", "-shared", "-x", "c", os.devnull, "-o", empty], check=True)
        self.refuses("libcuda.so.1 12.3 or newer is needed: the one found here has no cuInit", library=self.folder)

    def test_a_driver_that_is_too_old(self):
        self.refuses("libcuda.so.1 is of CUDA 12.2, 12.3 or newer is needed", standin="driver=12020")

    def test_no_nccl(self):
        (self.folder / "libcuda.so.1").symlink_to(STANDIN / "libcuda.so.1")
        (self.folder / "libnccl.so.2").write_text("before one that the system may have")
        self.refuses("--transport=nccl: libnccl.so.2 2.28 or newer is needed: ", "--transport=nccl", library=self.folder)

    def test_too_little_memory(self):
        self.plan = self.compile(SPECS / "1f1b.yaml", **{**LINK, "tensors__boundary": "64MiB", "memory__limit": "64GiB"})
        done = self.refuses("the buffers for transfers need", standin="memory=64MiB")
        needed, room = re.search(r"need (\d+) bytes, (\d+) are free on the device", done.stderr).groups()
        self.assertLess(int(room), int(needed))
        self.assertLessEqual(int(room), 64 << 20)

    def test_too_few_processors(self):
        self.refuses("the plan needs 4 communicators, each of which may hold a multiprocessor while it waits; the GPU has 4",
                     "--transport=nccl", standin="processors=4")
        self.cuda(self.plan, "--transport=nccl", "--steps", 2, standin="processors=5")

    def test_too_few_connections(self):
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
        self.addCleanup(os.environ.pop, "CUDA_DEVICE_MAX_CONNECTIONS")
        self.refuses("streams on its GPU, which has 1 connections", "--transport=ipc", code=CHECK)
        shared = self.compile(SPECS / "1f1b.yaml", communicator="shared", **LINK)
        for transport in ("ipc", "nccl"):
            self.assertEqual(self.run_cuda(shared, "--transport", transport, "--steps", 2)["steps"], 2)

    def test_more_ranks_than_gpus(self):
        self.refuses("there are more than 2 ranks on this one, and 2 GPUs", "--transport=nccl", devices=2)

    def test_an_nccl_that_is_too_old(self):
        self.refuses("libnccl.so.2 is 2.27, 2.28 or newer is needed", "--transport=nccl", standin="nccl=22705")

    def test_an_nccl_that_does_not_keep_the_order_of_launches(self):
        os.environ["NCCL_LAUNCH_ORDER_IMPLICIT"] = "0"
        self.addCleanup(os.environ.pop, "NCCL_LAUNCH_ORDER_IMPLICIT")
        self.refuses("NCCL vouches only with NCCL_LAUNCH_ORDER_IMPLICIT=1; it is 0", "--transport=nccl", code=USAGE)

    def test_no_device(self):
        self.refuses("there is no CUDA device here", devices=0)

    def test_a_library_that_knows_no_gpu(self):
        library = STANDIN.parent / "conformance/probe-first.so"
        self.refuses("is built for version 1 of pipec_stage.h, expected version 2 with --device=cuda", f"--stage={library}", code=USAGE)
        self.piperun(self.plan, "--local", "--steps", 3, f"--stage={library}")

    def test_what_a_gpu_has_no_use_for(self):
        scenario = SPECS / "networks" / "slow-link.json"
        for expected, *arguments in [("--emulate is for --device=host", "--emulate=naive"),
                                     ("--network is for --device=host", "--network", scenario),
                                     ("--adapt and --replan are for --device=host yet", "--adapt")]:
            with self.subTest(arguments=arguments):
                self.refuses(expected, *arguments, code=USAGE)
        self.assertIn("--transport is for --device=cuda", self.piperun(self.plan, "--local", "--transport=ipc", code=USAGE).stderr)


class CheckTest(GpuTest):
    """tools/gpu-check, on the stand-ins: what it does on a GPU it can do."""

    def check(self, *arguments, **options):
        return subprocess.run([SOURCE / "tools/gpu-check", "--built", BIN.parent, *arguments, self.folder / "out"],
                              capture_output=True, text=True, timeout=HANG, **options)

    def test_all_that_a_gpu_is_asked(self):
        done = self.check("--standin")
        self.assertEqual(done.returncode, OK, done.stdout + done.stderr)
        rows = [line.split("\t") for line in (self.folder / "out/results.tsv").read_text().splitlines()]
        found = {what: (measured, verdict) for what, measured, _, _, verdict in rows}
        for what, measured in [("conformance: tests that differ from the stand-in", r"0 of \d\d+"),
                               ("mlp of 4 processes over ipc: lines that differ", "0 of 80"),
                               ("NCCL: what a rank sends itself arrives", "yes"), ("NCCL: two processes on one GPU", "yes")]:
            self.assertRegex(found[what][0], f"^{measured}$")
            self.assertEqual(found[what][1], "ok")
        clocks = [what for what, (_, verdict) in found.items() if verdict == "not judged"]
        self.assertEqual(len(clocks), 3, done.stdout)  # of bench-gpu
        self.assertRegex(found["an action, one rank with four stages"][0], r"^[\d.]+ us$")
        self.assertIn("what ", done.stdout.rsplit("\n\n", 1)[1])  # the table at the end

    def test_cut_off_it_says_what_there_is(self):
        check = subprocess.Popen([SOURCE / "tools/gpu-check", "--standin", "--built", BIN.parent, self.folder / "out"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for last in (check.stderr.close, check.stdout.close, check.wait, check.kill):
            self.addCleanup(last)
        for line in check.stdout:
            if line.startswith("conformance: "):
                break
        check.terminate()
        out, messages = check.communicate(timeout=HANG)
        self.assertEqual(check.returncode, CHECK, messages + out)
        self.assertIn("gpu-check: cut off", messages)
        self.assertRegex(out, r"(?m)^what .*\nconformance: .* ok\n")

    def test_no_gpu(self):
        if pathlib.Path("/proc/driver/nvidia").exists():
            self.skipTest("there is one")
        done = self.check()
        self.assertEqual(done.returncode, RUN, done.stdout + done.stderr)
        self.assertIn("gpu-check: no GPU here", done.stderr)
        self.assertIn("driver: not found", done.stdout)


class FaultTest(GpuTest):
    """One call of one rank fails, or never returns: all ranks end, with the cause named."""

    # Not called in such a run, or only to tell what went wrong, or once all is over.
    SPARED = {"cuGetErrorString", "cuMemFreeHost", "cuMemFree_v2", "cuIpcCloseMemHandle", "cuStreamQuery",
              "cuEventDestroy_v2", "cuModuleUnload", "cuMemcpyDtoH_v2", "cuMemcpyHtoD_v2", "cuStreamDestroy_v2",
              "cuLaunchHostFunc", "ncclGetErrorString", "ncclGetLastError", "ncclCommAbort", "ncclAllReduce", "ncclReduce",
              "ncclBroadcast", "ncclGroupStart", "ncclGroupEnd"}
    SAMPLE = {"cuInit", "cuMemAlloc_v2", "cuLaunchKernel", "cuEventRecord", "ncclCommInitRankConfig", "ncclSend"}

    def setUp(self):
        super().setUp()
        self.plan = self.compile(SPECS / "1f1b.yaml", **LINK)

    def calls(self, transport, functions):
        """(call, nth): the first, and of those made in steps one in the middle and a late one."""
        self.cuda(self.plan, "--steps", 6, "--transport", transport, standin=f"log={self.folder}/{transport}")
        logs = [collections.Counter(log) for log in self.logs(transport)]
        for call in functions:
            made = min(log[call] for log in logs)
            if call in ("cuEventQuery", "ncclCommGetAsyncError"):
                made //= 2  # one run asks more often than the next
            if call not in self.SPARED and (SOAK or call in self.SAMPLE):
                if made == 0:
                    self.assertEqual(call, "ncclGetUniqueId")  # the last rank makes none
                for nth in sorted({1, max(1, made // 2), max(1, made - 2)} if SOAK else {1}):
                    yield call, nth

    def fault(self, transport, call, nth, how, expected):
        with self.subTest(transport=transport, call=call, nth=nth, how=how):
            begin = time.monotonic()
            done = self.cuda(self.plan, "--steps", 6, "--transport", transport, "--deadline", 1, "-v", code=RUN,
                             standin=f"fault=2:{call}:{nth}:{how}")
            if SOAK:
                self.assertLess(time.monotonic() - begin, 1 + 2)
            self.assertIn(expected, done.stderr)
            self.nobody_is_left([int(pid) for pid in re.findall(r"rank \d+ has pid (\d+)", done.stderr)])

    def test_a_call_that_fails(self):
        for call, nth in self.calls("ipc", FUNCTIONS):
            self.fault("ipc", call, nth, 719, f"rank 2: {call}: unspecified failure (719)")
        for call, nth in self.calls("nccl", NCCL):
            self.fault("nccl", call, nth, 2, f"rank 2: {call}: unhandled system error (2)")

    def test_a_call_that_never_returns(self):
        for transport, functions in (("ipc", FUNCTIONS), ("nccl", NCCL)):
            for call, nth in self.calls(transport, functions):
                self.fault(transport, call, nth, "hang", f"rank 2: {call} did not return within 1 s")

    def test_an_error_in_the_background(self):
        for how in ("async", "abort"):  # the latter's ncclCommAbort never returns
            for nth in (5, 50) if SOAK else (5,):
                self.fault("nccl", "ncclSend", nth, how, "rank 2: a communicator failed: remote process exited")

    def start(self, *arguments):
        """A long run, once all have met: the launcher, and the ranks' pids."""
        environment = {**os.environ, "LD_LIBRARY_PATH": str(STANDIN), "PIPEC_STANDIN": "devices=4"}
        return self.launch(self.plan, "--device=cuda", "--steps", 100000, *arguments, env=environment)

    def test_a_process_that_is_killed(self):
        for n in range(100 if SOAK else 2):
            with self.subTest(n=n):
                launcher, pids = self.start("--deadline", 5)
                time.sleep(0.001 * n)
                os.kill(pids[n % 4], signal.SIGKILL)
                messages = launcher.communicate(timeout=HANG)[1]
                self.assertEqual(launcher.returncode, RUN)
                self.assertIn(f"rank {n % 4}", messages)
                self.nobody_is_left(pids.values())

    def test_a_process_that_stands_still(self):
        """What waits for it is named: rank, instruction, peer."""
        for transport in ("ipc", "nccl"):
            with self.subTest(transport=transport):
                launcher, pids = self.start("--transport", transport, "--deadline", 2, "--rendezvous", HANG)
                begin = time.monotonic()
                os.kill(pids[2], signal.SIGSTOP)
                messages = launcher.communicate(timeout=HANG)[1]
                if SOAK:
                    self.assertLess(time.monotonic() - begin, 2 + 2)
                self.assertEqual(launcher.returncode, RUN)
                self.assertRegex(messages, r"rank \d: (send|recv) .* rank \d did not end within 2 s")
                self.nobody_is_left(pids.values())


class StrangerTest(stranger_test.StrangerTest):
    """Whoever comes to the meeting of ranks that run on GPUs is shown out as elsewhere."""

    def setUp(self):
        super().setUp()
        for name, value in [("LD_LIBRARY_PATH", str(STANDIN)), ("PIPEC_STANDIN", "devices=4 latency=50us bandwidth=1GB/s")]:
            self.addCleanup(os.environ.pop, name)
            os.environ[name] = value

    def start(self, plan, *arguments):
        return super().start(plan, "--device=cuda", *arguments)

    # At the meeting of a launcher's processes the device is not in it yet.
    test_crowds_and_impostors_at_the_rendezvous_change_nothing = None
    test_a_stranger_hears_nothing_that_is_made_of_the_secret = None
    test_another_version_on_rank_0s_port_ends_the_caller_at_once = None


class MachinesTest(GpuTest):
    """Processes that somebody else has started, as on several machines."""

    def start(self, rank, *command, **more):
        process = subprocess.Popen([*command, BIN / "piperun", self.plan, "--device=cuda", "--steps", "5", "--deadline", "60",
                                    "--rendezvous", "60", *self.arguments],
                                   env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1",
                                        "MASTER_PORT": str(self.port), "PIPEC_SECRET": "a secret of the test",
                                        "LD_LIBRARY_PATH": str(STANDIN), "PIPEC_STANDIN": "devices=1", **more},
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for last in (process.stderr.close, process.stdout.close, process.wait, process.kill):
            self.addCleanup(last)
        return process

    def setUp(self):
        super().setUp()
        self.plan = self.compile(SPECS / "1f1b.yaml", pipeline__ranks=2, **LINK)
        self.port = free_port()

    def test_ipc_does_not_reach_another_machine(self):
        other = self.folder / "boot_id"
        other.write_text("another machine\n")
        self.arguments = ["--transport=ipc"]
        mount = ["unshare", "-m", "sh", "-c", f'mount --bind {other} /proc/sys/kernel/random/boot_id && exec "$@"', "sh"]
        if os.geteuid() != 0:
            mount.insert(1, "-Ur")
        if subprocess.run([*mount, "true"], capture_output=True).returncode != 0:
            self.skipTest("no namespaces of mounts here")
        processes = [self.start(0), self.start(1, *mount)]
        messages = [process.communicate(timeout=HANG)[1] for process in processes]
        self.assertEqual([process.returncode for process in processes], [RUN, RUN])
        self.assertRegex("".join(messages), r"rank \d: --transport=ipc reaches ranks of one machine; rank \d is on another")

    def test_all_run_with_the_same_transport(self):
        self.arguments = []
        processes = [self.start(rank, CUDA_VISIBLE_DEVICES=visible) for rank, visible in [(0, "0"), (1, "0,1")]]
        messages = [process.communicate(timeout=HANG)[1] for process in processes]
        self.assertEqual([process.returncode for process in processes], [RUN, RUN])
        self.assertRegex("".join(messages), r"rank \d runs with --transport=(ipc|nccl), rank \d with (ipc|nccl)")


class StandinTest(unittest.TestCase):
    def test_it_is_small(self):
        """So that whoever reads it can see that its rules are CUDA's and NCCL's."""
        sources = [*(SOURCE / "test/standin").glob("*.cpp"), *(SOURCE / "test/standin").glob("*.h")]
        self.assertLessEqual(sum(len(each.read_text().splitlines()) for each in sources), 1400)

if __name__ == "__main__":
    unittest.main()
