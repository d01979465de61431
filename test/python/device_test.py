"""Where a run is, and what of a run on a GPU can be told without one: choices, errors, in which order streams wait."""
import os
import unittest
from unittest import mock

import torch

import pipec
from pipec.torch.device import Gpu, Host, device_of


class Stream:
    """Notes who waits for whom."""

    def __init__(self, name, said):
        self.name, self.said = name, said

    def wait_stream(self, other):
        self.said.append(f"{self.name} waits for {other.name}")


class Instruction:
    def __init__(self, stream=None):
        self.stream = stream


class DeviceTest(unittest.TestCase):
    def test_modules_choose(self):
        linear = torch.nn.Linear(2, 2)
        for modules in ({0: linear}, {0: torch.nn.ReLU()}, {}):
            self.assertIsInstance(device_of(modules, 0), Host)
        bare = torch.nn.Linear(2, 2, device="meta")
        with self.assertRaisesRegex(pipec.SpecError, "stage 1's weight is on meta: a run is on the CPU or on CUDA; give them memory"):
            device_of({1: bare}, 0)
        with self.assertRaisesRegex(pipec.SpecError, "stage 0's weight is on cpu, stage 1's weight on meta: move all modules"):
            device_of({0: linear, 1: bare}, 0)
        norm = torch.nn.BatchNorm1d(2)
        norm.running_mean = norm.running_mean.to("meta")
        with self.assertRaisesRegex(pipec.SpecError, "stage 0's running_mean on meta"):
            device_of({0: norm}, 0)

    def test_a_process_has_one_gpu(self):
        for index, local, world, visible, found in [(0, "0", 4, 1, None), (0, "3", 3, 1, None), (1, "5", 5, 4, None), (2, None, 2, 4, None),
                                                    (0, "1", 0, 4, 1), (1, None, 0, 2, 0)]:
            environment = {"LOCAL_RANK": local} if local else {}
            with self.subTest(index=index, local=local), mock.patch.dict(os.environ, environment, clear=True), \
                    mock.patch("torch.cuda.device_count", return_value=visible):
                if found is None:
                    self.assertEqual(Gpu(index, world).name, b"cuda")
                else:
                    with self.assertRaisesRegex(pipec.SpecError, f"the modules are on cuda:{index}, this process's GPU is cuda:{found}"):
                        Gpu(index, world)

    def test_work_waits_for_its_instructions_stream_which_waits_for_it(self):
        said = []
        own, theirs = Stream("the program's", said), Stream("the instruction's", said)

        def work(what):
            said.append("work")
            if what.stream == 2:
                raise KeyError

        with mock.patch("torch.cuda.current_stream", return_value=own), \
                mock.patch("torch.cuda.ExternalStream", return_value=theirs) as made:
            ordered = Gpu(0, 0).in_order(work)
            ordered(Instruction(1))
            ordered(Instruction(1))
            whole = ["the program's waits for the instruction's", "work", "the instruction's waits for the program's"]
            self.assertEqual((said, made.call_count), (2 * whole, 1))
            said.clear()
            ordered(Instruction())
            self.assertEqual(said, ["work"])
            said.clear()
            with self.assertRaises(KeyError):
                ordered(Instruction(2))
            self.assertEqual(said, whole)
        self.assertIs(Host().in_order(work), work)

    def test_clipping_on_the_device_gives_the_same_bits(self):
        for square, most in [(100.0, 1.0), (7.3, 0.37), (0.5, 1.0), (0.0, 1.0)]:
            what = Instruction()
            what.number = square
            alike = []
            for factor in (Host().factor(what, most), Gpu.factor_of(torch.tensor(square, dtype=torch.float64), most)):
                for kind in (torch.float32, torch.float64):
                    torch.manual_seed(0)
                    gradients = [torch.randn(1000).to(kind), torch.randn(3, 5).to(kind)]
                    if factor is not None:
                        torch._foreach_mul_(gradients, factor)
                    self.assertTrue(all(each.dtype == kind for each in gradients))
                    alike.append(gradients)
            for one, other in zip(alike[:2], alike[2:]):
                self.assertTrue(all(torch.equal(a, b) for a, b in zip(one, other)))

    def test_slots_of_the_host_are_its_memory(self):
        memory = torch.arange(4, dtype=torch.float32)
        slot = Host().slot(memory.data_ptr(), 16).view(torch.float32).view(2, 2)
        slot += 1
        self.assertEqual(memory.tolist(), [1, 2, 3, 4])


if __name__ == "__main__":
    unittest.main()
