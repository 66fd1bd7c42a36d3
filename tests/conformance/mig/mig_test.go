// Package mig compares Heddle's MIG tables with those of NVIDIA's own go-nvml (pkg/nvml/mock/gpus): memory, SMs, counts
// and placements. For the H100 and later, that package has round figures in place of the driver's (3g with three memory
// slices, memory as sold), so only slices and counts are compared.
package mig

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
)

type placement struct {
	Start int `json:"start"`
	Size  int `json:"size"`
}

type profile struct {
	Name         string         `json:"name"`
	MemoryBytes  uint64         `json:"memoryBytes"`
	ComputeUnits uint32         `json:"computeUnits"`
	Count        uint32         `json:"count"`
	Consumes     map[string]int `json:"consumes"`
	Placements   []placement    `json:"placements"`
}

type model struct {
	Partitioning struct {
		Slots    int       `json:"slots"`
		Profiles []profile `json:"profiles"`
	} `json:"partitioning"`
}

func show(t *testing.T, name string) []profile {
	t.Helper()
	out, err := exec.Command(os.Getenv("HEDDLE_BINARY"), "catalog", "show", "nvidia/"+name, "-o", "json").Output()
	if err != nil {
		t.Fatalf("heddle catalog show nvidia/%s: %v", name, err)
	}
	var got model
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	return got.Partitioning.Profiles
}

// The names of NVML's profile numbers on each card; a number that a card does not have is not in its map.
func names(one, double, half, full string) map[int]string {
	return map[int]string{
		nvml.GPU_INSTANCE_PROFILE_1_SLICE:      "1g." + one,
		nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1: "1g." + one + "+me",
		nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV2: "1g." + double,
		nvml.GPU_INSTANCE_PROFILE_2_SLICE:      "2g." + double,
		nvml.GPU_INSTANCE_PROFILE_3_SLICE:      "3g." + half,
		nvml.GPU_INSTANCE_PROFILE_4_SLICE:      "4g." + half,
		nvml.GPU_INSTANCE_PROFILE_7_SLICE:      "7g." + full,
	}
}

func TestTables(t *testing.T) {
	a30 := map[int]string{
		nvml.GPU_INSTANCE_PROFILE_1_SLICE:      "1g.6gb",
		nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1: "1g.6gb+me",
		nvml.GPU_INSTANCE_PROFILE_2_SLICE:      "2g.12gb",
		nvml.GPU_INSTANCE_PROFILE_2_SLICE_REV1: "2g.12gb+me",
		nvml.GPU_INSTANCE_PROFILE_4_SLICE:      "4g.24gb",
	}
	cases := []struct {
		model string
		card  gpus.Config
		names map[int]string
		full  bool
	}{
		{"A30", gpus.A30_PCIE_24GB, a30, true},
		{"A100-40GB", gpus.A100_SXM4_40GB, names("5gb", "10gb", "20gb", "40gb"), true},
		{"A100-80GB", gpus.A100_SXM4_80GB, names("10gb", "20gb", "40gb", "80gb"), true},
		{"H100-SXM5-80GB", gpus.H100_SXM5_80GB, names("10gb", "20gb", "40gb", "80gb"), false},
		{"H200", gpus.H200_SXM5_141GB, names("18gb", "35gb", "71gb", "141gb"), false},
		{"B200", gpus.B200_SXM5_180GB, names("23gb", "45gb", "90gb", "180gb"), false},
	}
	for _, c := range cases {
		t.Run(c.model, func(t *testing.T) {
			ours := show(t, c.model)
			theirs := c.card.MIGProfiles.GpuInstanceProfiles
			if len(ours) != len(theirs) || len(theirs) != len(c.names) {
				t.Errorf("%d profiles here, %d there", len(ours), len(theirs))
			}
			for number, info := range theirs {
				at := slices.IndexFunc(ours, func(p profile) bool { return p.Name == c.names[number] })
				if at < 0 {
					t.Errorf("no profile %q", c.names[number])
					continue
				}
				compare(t, ours[at], info, c.card.MIGProfiles.GpuInstancePlacements[number], c.full)
			}
		})
	}
}

func compare(t *testing.T, ours profile, info nvml.GpuInstanceProfileInfo, places []nvml.GpuInstancePlacement, full bool) {
	t.Helper()
	if ours.Count != info.InstanceCount || ours.Consumes["compute-slices"] != int(info.SliceCount) {
		t.Errorf("%s: %d times %d slices here, %d times %d there", ours.Name, ours.Count, ours.Consumes["compute-slices"],
			info.InstanceCount, info.SliceCount)
	}
	if !full {
		return
	}
	if ours.MemoryBytes != info.MemorySizeMB<<20 || ours.ComputeUnits != info.MultiprocessorCount ||
		ours.Consumes["ofa"] != int(info.OfaCount) {
		t.Errorf("%s: %+v here, %+v there", ours.Name, ours, info)
	}
	var wanted []placement
	for _, place := range places {
		wanted = append(wanted, placement{int(place.Start), int(place.Size)})
	}
	if !slices.Equal(ours.Placements, wanted) {
		t.Errorf("%s: placements %v here, %v there", ours.Name, ours.Placements, wanted)
	}
}
