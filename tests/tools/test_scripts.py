#!/usr/bin/env python3
"""What the scripts behind the Makefile do on machines other than the one of whoever wrote them."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TOOLS = REPOSITORY / "tools"


def run(*words, cwd=REPOSITORY, **env):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, cwd=cwd,
                          env={**os.environ, **env}, stdin=subprocess.DEVNULL)


def packages(mode):
    done = run(TOOLS / "setup.sh", "--list", mode)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


class Scripts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="heddle-scripts-")
        self.dir = pathlib.Path(self.folder.name)
        (self.dir / "bin").mkdir()

    def tearDown(self):
        self.folder.cleanup()

    def program(self, name, text):
        path = self.dir / "bin" / name
        path.write_text("#!/bin/bash\n" + text)
        path.chmod(0o755)

    @property
    def path(self):
        return f"{self.dir}/bin:{os.environ['PATH']}"

    def test_each_target_installs_what_it_needs_before_it_does_anything(self):
        wanted = {"setup": "test", "build": "build", "image": "build", "run": "build", "test": "test", "test-unit": "unit",
                  "test-cluster": "test", "test-conformance": "test", "test-skew": "test", "lint": "lint", "asan": "sanitize",
                  "tsan": "sanitize", "fuzz": "test", "soak": "test", "bench": "test", "bench-guard": "test", "docs": "unit"}
        listed = re.findall(r"^([a-z%-]+):.*##", (REPOSITORY / "Makefile").read_text(), re.M)
        self.assertEqual({name.replace("%", "guard") for name in listed} - {"help", "clean"}, set(wanted))
        for target, mode in wanted.items():
            first = run("make", "--no-print-directory", "-n", target, MAKEFLAGS="", MAKELEVEL="").stdout.splitlines()[0]
            self.assertEqual(first, f"tools/setup.sh {mode}", target)

    def test_modes_of_the_set_up(self):
        self.assertLessEqual({"g++", "ninja-build", "libgtest-dev"}, packages("build"))
        self.assertLessEqual({"python3-pytest", "python3-yaml", "python3-jsonschema"} | packages("build"), packages("unit"))
        self.assertNotIn("clang-19", packages("unit"))
        self.assertLessEqual({"clang-tidy-19", "clang-format-19"} | packages("build"), packages("lint"))
        self.assertEqual(packages("sanitize"), packages("unit") | packages("lint"))
        self.assertLess(packages("sanitize"), packages("test"))
        done = run(TOOLS / "setup.sh", "--list", "everything")
        self.assertEqual(done.returncode, 1)
        self.assertIn("unknown mode 'everything'", done.stderr)

    def test_root_needs_no_sudo_and_others_keep_what_they_set(self):
        self.program("id", "echo 0")
        self.program("sudo", "echo sudo was called; exit 9")
        self.assertEqual(run(TOOLS / "as_root.sh", "echo", "done", PATH=self.path).stdout, "done\n")
        self.program("id", "echo 1000")
        self.program("sudo", 'exec "$@"')
        self.program("show", 'echo "$HEDDLE_KILL_SECONDS|$HEDDLE_CACHE|$HOME|$1"; type -P ip >/dev/null && echo tools')
        done = run(TOOLS / "as_root.sh", "show", "two words", PATH=self.path, HOME="/home/x", HEDDLE_KILL_SECONDS="7 8", HEDDLE_CACHE="")
        self.assertEqual(done.stdout.splitlines()[0], "7 8|/home/x/.cache/heddle|/home/x|two words")

    def test_without_sudo_one_line_says_so(self):
        self.program("id", "echo 1000")
        for name in ("bash", "env", "grep"):
            (self.dir / "bin" / name).symlink_to(shutil.which(name))
        done = run("/bin/bash", TOOLS / "as_root.sh", "tests/cluster/run.sh", PATH=f"{self.dir}/bin")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr, "as_root: 'tests/cluster/run.sh' needs root: run this as root, or install sudo\n")

    def test_lint_outside_a_git_checkout_says_what_it_left_out(self):
        for part in ("tools", "src/base", "CMakeLists.txt"):
            source, target = REPOSITORY / part, self.dir / "tree" / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy(source, target)
        done = run("tools/lint.sh", cwd=self.dir / "tree", GIT_CEILING_DIRECTORIES=str(self.dir), GIT_DIR=str(self.dir / "none"))
        self.assertIn("lint format: skipped", done.stdout)
        self.assertIn("lint tidy: skipped", done.stdout)
        self.assertNotIn("tidy: ok", done.stdout)

    def test_the_demo_takes_no_other_vendors_card_for_one_that_runs_cuda(self):
        """A machine with Ascend NPUs alone: up succeeds, and what is shown runs on simulated cards instead."""
        log = self.dir / "log"
        self.program("heddle", f'''echo "$*" >>{log}
case "$1 $2 $3" in
  "up --simulate "*) touch {self.dir}/simulated; echo up ;;
  "up "*) echo up ;;
  # What it shows on them is not this test's: the first question after that has no answer, and it ends.
  "ps -o json") if [ ! -f {self.dir}/simulated ]; then echo '{{"cards": [{{"vendor": "ascend"}}], "jobs": []}}'; fi ;;
esac
''')
        done = run(TOOLS / "demo.sh", HEDDLE_BIN=str(self.dir / "bin"))
        said = log.read_text().splitlines()
        self.assertEqual(done.returncode, 1)
        self.assertIn("none of NVIDIA", done.stdout)
        self.assertIn("SIMULATED cards", done.stdout)
        self.assertEqual([line for line in said if line.startswith(("up", "down"))][:3],
                         ["up --dashboard-port 0", "down", "up --simulate h100x1 --dashboard-port 0"])


if __name__ == "__main__":
    unittest.main()
