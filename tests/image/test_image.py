#!/usr/bin/env python3
"""The archive that `make image` writes: the same twice, every digest right, and its programs run on what is in it alone."""
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TOOL = REPOSITORY / "tools/make_image.py"


def make(out, *more, umask=0o022, **env):
    return subprocess.run([TOOL, "--build", BUILD, "--out", out, *more], capture_output=True, text=True, check=False,
                          umask=umask, env={**os.environ, **env})


class Archive:
    def __init__(self, path):
        with tarfile.open(path) as tar:
            self.files = {entry.name: tar.extractfile(entry).read() for entry in tar.getmembers()}

    def json(self, name):
        return json.loads(self.files[name])

    def blob(self, descriptor):
        data = self.files["blobs/" + descriptor["digest"].replace(":", "/")]
        assert len(data) == descriptor["size"] and "sha256:" + hashlib.sha256(data).hexdigest() == descriptor["digest"]
        return data


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.dir = pathlib.Path(cls.folder.name)
        done = make(cls.dir / "one.tar")
        assert done.returncode == 0, done.stderr
        cls.archive = Archive(cls.dir / "one.tar")
        cls.entry = cls.archive.json("index.json")["manifests"][0]
        cls.manifest = json.loads(cls.archive.blob(cls.entry))
        cls.config = json.loads(cls.archive.blob(cls.manifest["config"]))
        cls.root = cls.dir / "root"
        layer = cls.archive.blob(cls.manifest["layers"][0])
        (cls.dir / "layer.tar").write_bytes(layer)
        with tarfile.open(cls.dir / "layer.tar") as tar:
            cls.members = tar.getmembers()
            tar.extractall(cls.root)  # from our own tool
        cls.diff_id = "sha256:" + hashlib.sha256(layer).hexdigest()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_same_twice_whoever_packs_it(self):
        done = make(self.dir / "two.tar", umask=0o077)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.dir / "one.tar").read_bytes(), (self.dir / "two.tar").read_bytes())
        self.assertEqual({(entry.uid, entry.gid, entry.mtime) for entry in self.members},
                         {(0, 0, self.members[0].mtime)})

    def test_a_given_time_is_the_only_time(self):
        done = make(self.dir / "dated.tar", SOURCE_DATE_EPOCH="86400")
        self.assertEqual(done.returncode, 0, done.stderr)
        dated = Archive(self.dir / "dated.tar")
        manifest = json.loads(dated.blob(dated.json("index.json")["manifests"][0]))
        self.assertEqual(json.loads(dated.blob(manifest["config"]))["created"], "1970-01-02T00:00:00Z")

    def test_both_indexes_name_the_same_image_by_the_charts_default_name(self):
        values = (REPOSITORY / "charts/heddle/values.yaml").read_text()
        chart = (REPOSITORY / "charts/heddle/Chart.yaml").read_text()
        name = re.search(r"^  repository: (\S+)", values, re.M).group(1) + ":" + re.search(r'^appVersion: "(.*)"', chart, re.M).group(1)
        [listed] = self.archive.json("manifest.json")
        self.assertEqual(listed["RepoTags"], [name])
        self.assertEqual(self.entry["annotations"]["io.containerd.image.name"], "docker.io/library/" + name)
        self.assertEqual("sha256:" + listed["Config"].rsplit("/", 1)[1], self.manifest["config"]["digest"])
        self.assertEqual(["sha256:" + layer.rsplit("/", 1)[1] for layer in listed["Layers"]],
                         [layer["digest"] for layer in self.manifest["layers"]])
        self.assertEqual(self.config["rootfs"]["diff_ids"], [self.diff_id])

    def test_a_name_of_a_registry_is_taken_as_it_is(self):
        done = make(self.dir / "named.tar", "--name", "registry.example.com:5000/team/heddle")
        self.assertEqual(done.returncode, 0, done.stderr)
        archive = Archive(self.dir / "named.tar")
        name = archive.json("index.json")["manifests"][0]["annotations"]["io.containerd.image.name"]
        self.assertRegex(name, r"^registry\.example\.com:5000/team/heddle:\d+\.\d+\.\d+$")
        self.assertEqual(archive.json("manifest.json")[0]["RepoTags"], [name])

    def test_programs_run_on_the_libraries_of_the_image(self):
        loader = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}[platform.machine()]
        found = next(path for path in self.root.rglob(loader) if path.is_file())
        library_path = self.root / f"usr/lib/{platform.machine()}-linux-gnu"
        for name in ("heddle-controller", "heddle-agent"):
            done = subprocess.run([found, "--inhibit-cache", "--library-path", library_path, self.root / "usr/bin" / name, "--help"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("--metrics-port", done.stdout)
            listed = subprocess.run([found, "--inhibit-cache", "--library-path", library_path, "--list",
                                     self.root / "usr/bin" / name], capture_output=True, text=True, check=True).stdout
            outside = [line for line in listed.splitlines() if "=>" in line and str(self.root) not in line
                       and not line.split()[0].startswith("/")]
            self.assertEqual(outside, [])

    def test_the_hook_and_the_guards_are_there_and_nothing_of_a_shell(self):
        self.assertTrue(os.access(self.root / "usr/bin/heddle-oci-hook", os.X_OK))
        for guard in ("libheddle_guard.so", "libheddle_guard_ascend.so"):
            self.assertEqual((self.root / "usr/bin" / guard).read_bytes(), (BUILD / "lib" / guard).read_bytes())
        self.assertEqual(sorted(path.name for path in (self.root / "usr/bin").iterdir()),
                         ["heddle-agent", "heddle-controller", "heddle-oci-hook", "libheddle_guard.so", "libheddle_guard_ascend.so"])

    def test_labels_say_what_it_is(self):
        labels = self.config["config"]["Labels"]
        self.assertEqual(labels["org.opencontainers.image.version"], self.entry["annotations"]["org.opencontainers.image.ref.name"])
        head = subprocess.run(["git", "-C", REPOSITORY, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        if head.returncode == 0:
            self.assertIn(labels["org.opencontainers.image.revision"].removesuffix("-dirty"), head.stdout)
        else:
            self.assertNotIn("org.opencontainers.image.revision", labels)

    def test_each_package_that_it_carries_brings_its_terms(self):
        lines = (self.root / labels_path(self.config)).read_text().splitlines()
        self.assertIn("libc6", [line.split()[0] for line in lines])
        for line in lines:
            self.assertTrue((self.root / "usr/share/doc" / line.split()[0] / "copyright").is_file(), line)

    def test_what_is_not_built_is_named(self):
        done = subprocess.run([TOOL, "--build", self.dir / "nothing", "--out", self.dir / "no.tar"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("heddle-controller is not built: run tools/build.sh release", done.stderr)
        self.assertFalse((self.dir / "no.tar").exists())


def labels_path(config):
    return config["config"]["Labels"]["dev.heddle.libraries"].lstrip("/")


if __name__ == "__main__":
    unittest.main()
