"""Runs `dovetail cores` as people do: cores_test.py BINARY SOURCE_DIR"""

import collections
import json
import pathlib
import subprocess
import sys
import unittest
import xml.etree.ElementTree

import cases

EXAMPLE = pathlib.Path(sys.argv[2]) / "examples" / "core_groups"
# A vector task runs on one of the lanes of the mixed one that comes after 5 us.
WAITING = EXAMPLE / "admission.yaml"
NPU = ["--topology", "24x(1C2V)"]


class Cores(cases.OfCommand):
    COMMAND = "cores"

    def test_times_and_bounds(self):
        found = json.loads(self.output("--topology", "1x(1C2V)", "--graph", WAITING, "--json"))
        self.assertAlmostEqual(found["makespan"], 45e-6)
        self.assertAlmostEqual(found["critical_path"], 35e-6)
        self.assertAlmostEqual(found["work"], 35e-6)
        self.assertEqual(found["scarce"], "vector lanes")
        self.assertAlmostEqual(found["reached"], 35 / 45)
        self.assertAlmostEqual(found["busy"]["matrix"], 20 / 45)
        self.assertAlmostEqual(found["kept"]["matrix"], 25 / 45)
        self.assertEqual(found["parked"], {"parts": 0, "mean": 0})
        self.assertAlmostEqual(found["wait"]["max"], 25e-6)
        text = self.output("--topology", "1x(1C2V)", "--graph", WAITING)
        self.assertIn("makespan  45.000 us", text)
        self.assertIn("bound     35.000 us: critical path 35.000 us, work 35.000 us (vector lanes)", text)
        self.assertIn("kept      matrix 55.6 %, vector 5.6 % (", text)
        self.assertIn("longest 25.000 us ('fused' block 0)", text)

    def lanes_of(self, path):
        """Slices by track, as (name, start, end) in microseconds."""
        names, lanes = {}, collections.defaultdict(list)
        for event in json.loads(path.read_text())["traceEvents"]:
            track = (event["pid"], event.get("tid"))
            if event["name"] == "thread_name":
                names[track] = event["args"]["name"]
            if event["ph"] == "X":
                lanes[names[track]].append((event["name"], event["ts"], event["ts"] + event["dur"]))
        return {lane: sorted(slices, key=lambda one: one[1]) for lane, slices in lanes.items()}

    def test_policies_differ_in_when_the_parts_start(self):
        starts, ends = {}, {}
        for policy in ("strict", "per-core"):
            trace = self.folder / f"{policy}.json"
            self.output("--topology", "1x(1C2V)", "--graph", WAITING, "--policy", policy, "--trace", trace)
            lanes = self.lanes_of(trace)
            starts[policy] = [next(start for name, start, _ in lanes[f"group 0 · {lane}"] if name == "fused")
                              for lane in ("matrix 0", "vector 0", "vector 1")]
            ends[policy] = max(end for slices in lanes.values() for name, _, end in slices if name != "kept")
        self.assertEqual(starts, {"strict": [30, 30, 30], "per-core": [5, 30, 5]})
        self.assertEqual(ends, {"strict": 45, "per-core": 50})
        self.assertEqual(self.lanes_of(self.folder / "strict.json")["group 0 · matrix 0 · kept"], [("kept", 5, 30)])
        self.assertEqual(self.lanes_of(self.folder / "per-core.json")["group 0 · vector 0 · parked"][0], ("fused", 5, 30))

    def test_a_lane_does_one_thing_at_a_time(self):
        trace = self.folder / "t.json"
        self.output(*NPU, "--graph", EXAMPLE / "moe_layer.yaml", "--trace", trace)
        lanes = self.lanes_of(trace)
        self.assertEqual(sum(1 for lane in lanes if lane.count("·") == 1), 72)
        for lane, slices in lanes.items():
            for (_, _, end), (_, start, _) in zip(slices, slices[1:]):
                self.assertLessEqual(end, start + 1e-6, lane)

    def test_the_picture_stands_alone(self):
        picture = self.folder / "p.svg"
        self.output(*NPU, "--graph", EXAMPLE / "moe_layer.yaml", "--svg", picture)
        root = xml.etree.ElementTree.fromstring(picture.read_text())
        titles = [one.text for one in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertTrue(any(title.startswith("gate_up 3, block 0, ") for title in titles))
        self.assertNotIn("href", picture.read_text())

    def test_the_example_nearly_reaches_the_bound(self):
        found = json.loads(self.output(*NPU, "--graph", EXAMPLE / "moe_layer.yaml", "--json"))
        self.assertGreaterEqual(found["reached"], 0.95)
        self.assertLessEqual(found["reached"], 1.0)

    def test_the_example_runs_on_threads(self):
        trace = self.folder / "threads.json"
        found = json.loads(self.output(*NPU, "--graph", EXAMPLE / "moe_layer.yaml", "--json", "--threads", "3",
                                       "--trace", trace))
        self.assertEqual((found["tasks"], found["blocks"], found["lanes"]), (480, 1168, 72))
        # Fewer threads than lanes need longer than the lanes would: three at a time, at most.
        self.assertGreater(found["makespan"], found["work"])
        self.assertIn("gate_up 3", trace.read_text())

    def test_threads_show_what_is_kept_and_parked(self):
        # When the pair comes, both vector lanes have been busy for long and will be: one of them and the matrix lane
        # are kept for it, and the short task is parked behind the other.
        graph = self.write("graph.yaml", """
tasks:
  - {name: long, shape: V, blocks: 2, cost: 400000}
  - {name: first, shape: C, cost: 100000}
  - {name: pair, shape: 1C1V, cost: 10, after: first}
  - {name: short, shape: V, cost: 10, after: first}
""")
        trace, picture = self.folder / "t.json", self.folder / "p.svg"
        found = json.loads(self.output("--topology", "1x(1C2V)", "--threads", "3", "--graph", graph, "--json",
                                       "--trace", trace, "--svg", picture))
        lanes = self.lanes_of(trace)
        (name, start, end), = lanes["group 0 · matrix 0 · kept"]
        self.assertEqual(name, "kept")
        self.assertGreaterEqual(start, 100000)
        self.assertLessEqual(end, next(start for name, start, _ in lanes["group 0 · matrix 0"] if name == "pair"))
        parked = [one for lane in lanes if lane.endswith(" · parked") for one in lanes[lane]]
        self.assertEqual([name for name, _, _ in parked], ["short"])
        self.assertGreater(found["kept"]["matrix"], 0)
        self.assertEqual(found["parked"]["parts"], 1)
        self.assertIn("short, block 0, parked", picture.read_text())
        self.assertEqual(picture.read_text().count('fill="url(#kept)"'), 1 + sum(
            len(slices) for lane, slices in lanes.items() if lane.endswith(" · kept")))
        samples = [event["args"]["value"] for event in json.loads(trace.read_text())["traceEvents"]
                   if event["ph"] == "C" and event["name"] == "tasks, high-water mark"]
        self.assertEqual(samples, sorted(samples))
        self.assertEqual((samples[0], samples[-1]), (0, found["high_water"]["tasks"]))
        self.assertGreater(len(set(samples)), 2)

    def test_the_example_is_what_its_script_writes(self):
        made = subprocess.run([sys.executable, EXAMPLE / "moe_layer.py"], capture_output=True, text=True, check=True)
        self.assertEqual(made.stdout, (EXAMPLE / "moe_layer.yaml").read_text())

    def test_the_same_graph_gives_the_same_bytes(self):
        command = [*NPU, "--graph", EXAMPLE / "moe_layer.yaml", "--trace"]
        texts = [self.output(*command, self.folder / name) for name in ("1.json", "2.json")]
        self.assertEqual(*texts)
        self.assertEqual((self.folder / "1.json").read_bytes(), (self.folder / "2.json").read_bytes())

    def test_what_is_wrong(self):
        graph = WAITING
        self.refused("--graph is missing", *NPU)
        self.refused("--topology: topology '24x(1C', character 7", "--topology", "24x(1C", "--graph", graph)
        self.refused("expected at most 65536", "--topology", "65536x(64L)", "--graph", graph)
        self.refused("has 4098 lanes, expected at most 4096 with --threads",
                     "--topology", "1366x(1C2V)", "--graph", graph, "--threads", "2")
        self.refused("'fused': task 2: no group has 1 matrix and 2 vector lanes", "--topology", "8x(1C1V)", "--graph",
                     graph)
        self.refused("'loose' is no policy, expected strict, staged, uniform or per-core", *NPU, "--graph", graph, "--policy",
                     "loose")
        self.refused("nowhere.yaml: No such file", *NPU, "--graph", self.folder / "nowhere.yaml")
        self.refused("/tasks/0/shape: 'X' is no shape", *NPU, "--graph",
                     self.write("x.yaml", "tasks: [{name: a, shape: X, cost: 1}]"))
        self.refused("/dev/full: No space left on device", *NPU, "--graph", graph, "--trace", "/dev/full")
        self.refused("nowhere/p.svg: No such file", *NPU, "--graph", graph, "--svg", self.folder / "nowhere" / "p.svg")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
