// Times Kubernetes' structured allocator on the shapes of shapes.py, the way kube-scheduler uses it, and prints one JSON object a
// line: {"shape", "us", "pods", "capped", "answers"}. See docs/benchmarks.md for what is inside the clock.
//
//	upstream SECONDS CAP SHAPE.json...
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Of the first pods, the devices are printed for comparison.
const comparedPods = 5

type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	var all []*resourceapi.DeviceClass
	for _, class := range c {
		all = append(all, class)
	}
	return all, nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, fmt.Errorf("no class %s", name)
}

type shape struct {
	Name    string
	Wanted  int
	Objects []json.RawMessage
	Pods    [][]*resourceapi.ResourceClaim
}

type fleet struct {
	nodes   []*v1.Node
	slices  []*resourceapi.ResourceSlice
	classes classes
	taken   structured.AllocatedState
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// charge and release do what the scheduler's plugin does when it sees a claim change (allocateddevices.go).
func (f *fleet) charge(allocation *resourceapi.AllocationResult) {
	for _, result := range allocation.Devices.Results {
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		if result.ShareID == nil {
			f.taken.AllocatedDevices.Insert(id)
			continue
		}
		f.taken.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
		f.taken.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
	}
}

func (f *fleet) release(allocation *resourceapi.AllocationResult) {
	for _, result := range allocation.Devices.Results {
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		if result.ShareID == nil {
			f.taken.AllocatedDevices.Delete(id)
			continue
		}
		f.taken.AllocatedSharedDeviceIDs.Delete(structured.MakeSharedDeviceID(id, result.ShareID))
		f.taken.AggregatedCapacity.Remove(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
	}
}

func load(path string) (shape, *fleet) {
	var s shape
	text, err := os.ReadFile(path)
	must(err)
	must(json.Unmarshal(text, &s))
	f := &fleet{classes: classes{}, taken: structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}}
	for _, raw := range s.Objects {
		var kind struct{ Kind string }
		must(json.Unmarshal(raw, &kind))
		switch kind.Kind {
		case "Node":
			var node v1.Node
			must(json.Unmarshal(raw, &node))
			f.nodes = append(f.nodes, &node)
		case "ResourceSlice":
			var slice resourceapi.ResourceSlice
			must(json.Unmarshal(raw, &slice))
			f.slices = append(f.slices, &slice)
		case "DeviceClass":
			var class resourceapi.DeviceClass
			must(json.Unmarshal(raw, &class))
			f.classes[class.Name] = &class
		case "ResourceClaim":
			var claim resourceapi.ResourceClaim
			must(json.Unmarshal(raw, &claim))
			f.charge(claim.Status.Allocation)
		}
	}
	return s, f
}

// What Kubernetes 1.37 turns on by default.
var features = structured.Features{
	AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
	DeviceBindingAndStatus: true, ConsumableCapacity: true, FractionalCapacityRange: true,
}

type run struct {
	shape shape
	fleet *fleet
	cache *cel.Cache
	next  int // where the search for nodes starts, as kube-scheduler moves it on
}

// place is one scheduling cycle of a pod: PreFilter's allocator, Filter on nodes until enough fit. Nil: no node fits.
func (r *run) place(ctx context.Context, claims []*resourceapi.ResourceClaim) (string, []resourceapi.AllocationResult, error) {
	state := structured.AllocatedState{
		AllocatedDevices:         r.fleet.taken.AllocatedDevices.Clone(),
		AllocatedSharedDeviceIDs: r.fleet.taken.AllocatedSharedDeviceIDs.Clone(),
		AggregatedCapacity:       r.fleet.taken.AggregatedCapacity.Clone(),
	}
	allocator, err := structured.NewAllocator(ctx, features, state, r.fleet.classes, r.fleet.slices, r.cache)
	if err != nil {
		return "", nil, err
	}
	var name string
	var first []resourceapi.AllocationResult
	count := len(r.fleet.nodes)
	processed := 0
	for fitting := 0; processed < count && fitting < r.shape.Wanted; processed++ {
		node := r.fleet.nodes[(r.next+processed)%count]
		result, err := allocator.Allocate(ctx, node, claims)
		if err != nil {
			return "", nil, err
		}
		if result == nil {
			continue
		}
		fitting++
		if first == nil {
			name, first = node.Name, result
		}
	}
	r.next = (r.next + processed) % count
	return name, first, nil
}

func answer(node string, results []resourceapi.AllocationResult) string {
	text := node
	for _, allocation := range results {
		for _, result := range allocation.Devices.Results {
			text += " " + result.Request + "=" + result.Pool + "/" + result.Device
		}
	}
	return text
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	must(err)
	limit, err := strconv.ParseFloat(os.Args[2], 64)
	must(err)
	for _, path := range os.Args[3:] {
		s, f := load(path)
		r := &run{shape: s, fleet: f, cache: cel.NewCache(10, cel.Features{EnableConsumableCapacity: true})}
		answers := []string{}
		var total time.Duration
		pods := 0
		capped := false
		// The first round over the pods warms up, unless one takes long.
		for i := 0; i < len(s.Pods) || total.Seconds() < seconds; i++ {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(limit*float64(time.Second)))
			begin := time.Now()
			node, results, err := r.place(ctx, s.Pods[i%len(s.Pods)])
			for j := range results {
				r.fleet.charge(&results[j])
			}
			for j := range results {
				r.fleet.release(&results[j])
			}
			took := time.Since(begin)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) {
				capped = true
				total, pods = took, 1
				break
			}
			must(err)
			if len(answers) < comparedPods {
				answers = append(answers, answer(node, results))
			}
			if i < len(s.Pods) && took < time.Second {
				continue
			}
			total += took
			pods++
		}
		line, err := json.Marshal(map[string]any{
			"shape": s.Name, "us": total.Seconds() * 1e6 / float64(pods), "pods": pods, "capped": capped, "answers": answers})
		must(err)
		fmt.Println(string(line))
	}
}
