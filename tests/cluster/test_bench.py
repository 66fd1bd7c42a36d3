"""The benchmark with tiny sizes: that it runs and writes its numbers."""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def test_bench_runs_small(tmp_path):
    results = tmp_path / "results.json"
    results.write_text('{"other": 1}')
    done = subprocess.run([sys.executable, "-B", HERE / "bench_e2e.py", "--small"], capture_output=True, text=True, check=False,
                          env={**os.environ, "HEDDLE_BENCH_RESULTS": str(results)}, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    numbers = json.loads(results.read_text())
    assert numbers["other"] == 1
    for key in ("e2e.ratio", "e2e.pods_per_second", "e2e.stock_pods_per_second", "controller.rss_mib",
                "e2e.gang.ratio", "e2e.gang.stock_ratio", "e2e.gang.pods_per_second", "e2e.gang.native_pods_per_second"):
        assert numbers[key] > 0
