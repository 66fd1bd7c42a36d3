module heddle.dev/tests/conformance/mig

go 1.24.0

require github.com/NVIDIA/go-nvml v0.13.4-1
